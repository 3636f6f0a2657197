"""Building blocks of the small Python tasks: English phrases beside the code they mean.

`{v}` is the variable, `{k}`, `{m}` and `{d}` are numbers, `{c}` and `{p}` characters, `{w}` a word and
`{np}` the noun phrase that a phrase is about.
"""

ADJ = [
    ("even", "{v} % 2 == 0"),
    ("odd", "{v} % 2 == 1"),
    ("positive", "{v} > 0"),
    ("negative", "{v} < 0"),
    ("nonzero", "{v} != 0"),
]
# predicate, condition, range of the constant
PRED = [
    (["greater than {k}", "larger than {k}", "above {k}"], "{v} > {k}", (-5, 30)),
    (["less than {k}", "smaller than {k}", "below {k}"], "{v} < {k}", (-5, 30)),
    (["at least {k}", "greater than or equal to {k}"], "{v} >= {k}", (-5, 30)),
    (["at most {k}", "less than or equal to {k}"], "{v} <= {k}", (-5, 30)),
    (["different from {k}", "not equal to {k}"], "{v} != {k}", (-5, 30)),
    (["between {k} and {m}"], "{k} <= {v} <= {m}", (-5, 15)),
    (["divisible by {k}", "multiples of {k}"], "{v} % {k} == 0", (3, 12)),
    (["not divisible by {k}", "not multiples of {k}"], "{v} % {k} != 0", (2, 12)),
]
IS = [  # the same conditions as predicates of one number
    ("{v} is even", "{v} % 2 == 0"),
    ("{v} is odd", "{v} % 2 == 1"),
    ("{v} is positive", "{v} > 0"),
    ("{v} is negative", "{v} < 0"),
    ("{v} is greater than {k}", "{v} > {k}"),
    ("{v} is less than {k}", "{v} < {k}"),
    ("{v} is at least {k}", "{v} >= {k}"),
    ("{v} is at most {k}", "{v} <= {k}"),
    ("{v} equals {k}", "{v} == {k}"),
    ("{v} is divisible by {d}", "{v} % {d} == 0"),
    ("{v} is not divisible by {d}", "{v} % {d} != 0"),
]
MAPS = [
    (["the squares of {np}", "{np}, each squared"], "{v} * {v}", None),
    (["the cubes of {np}", "{np}, each cubed"], "{v} ** 3", None),
    (["{np}, each doubled", "twice each of {np}"], "{v} * 2", None),
    (["{np}, each tripled", "three times each of {np}"], "{v} * 3", None),
    (["the absolute values of {np}"], "abs({v})", None),
    (["the negatives of {np}", "{np}, each with the sign changed"], "-{v}", None),
    (["{np}, each multiplied by {k}", "{np}, each times {k}"], "{v} * {k}", (4, 12)),
    (["{np}, each increased by {k}", "{np}, each plus {k}"], "{v} + {k}", (1, 20)),
    (["{np}, each decreased by {k}", "{np}, each minus {k}"], "{v} - {k}", (1, 20)),
    (
        ["{np}, each divided by {k} and rounded down", "{np}, each integer-divided by {k}"],
        "{v} // {k}",
        (2, 9),
    ),
    (["the remainders of {np} modulo {k}", "{np}, each modulo {k}"], "{v} % {k}", (2, 12)),
    (
        [
            "the squares of {np}, each increased by {k}",
            "{np}, each squared and then increased by {k}",
        ],
        "{v} * {v} + {k}",
        (1, 9),
    ),
]
SCALAR = [
    ("{v} squared", "{v} * {v}"),
    ("{v} cubed", "{v} ** 3"),
    ("twice {v}", "{v} * 2"),
    ("{v} plus {k}", "{v} + {k}"),
    ("{v} minus {k}", "{v} - {k}"),
    ("{v} times {d}", "{v} * {d}"),
    ("the negative of {v}", "-{v}"),
    ("{v} itself", "{v}"),
    ("the absolute value of {v}", "abs({v})"),
    ("{v} divided by {d} rounded down", "{v} // {d}"),
    ("the remainder of {v} divided by {d}", "{v} % {d}"),
    ("{k}", "{k}"),
    ("the string '{w}'", "'{w}'"),
]
PAIR_IS = [
    ("{a} is greater than {b}", "{a} > {b}"),
    ("{a} is less than {b}", "{a} < {b}"),
    ("{a} equals {b}", "{a} == {b}"),
    ("{a} plus {b} is even", "({a} + {b}) % 2 == 0"),
    ("both {a} and {b} are greater than {k}", "{a} > {k} and {b} > {k}"),
    ("{a} or {b} is negative", "{a} < 0 or {b} < 0"),
    ("{a} is divisible by {d}", "{a} % {d} == 0"),
    ("the sum of {a} and {b} is greater than {k}", "{a} + {b} > {k}"),
]
PAIR_VAL = [
    ("the sum of {a} and {b}", "{a} + {b}"),
    ("the product of {a} and {b}", "{a} * {b}"),
    ("{a} minus {b}", "{a} - {b}"),
    ("{b} minus {a}", "{b} - {a}"),
    ("the larger of {a} and {b}", "max({a}, {b})"),
    ("the smaller of {a} and {b}", "min({a}, {b})"),
    ("the absolute difference of {a} and {b}", "abs({a} - {b})"),
    ("{d} times {a} plus {b}", "{d} * {a} + {b}"),
    ("{a} plus {d} times {b}", "{a} + {d} * {b}"),
    ("the square of {a} plus {b}", "{a} * {a} + {b}"),
    ("{k}", "{k}"),
    ("{a}", "{a}"),
    ("{b}", "{b}"),
]
CHARS = [
    ("vowels", "{v} in 'aeiou'"),
    ("digits", "{v}.isdigit()"),
    ("letters", "{v}.isalpha()"),
    ("uppercase letters", "{v}.isupper()"),
    ("lowercase letters", "{v}.islower()"),
    ("spaces", "{v} == ' '"),
    ("characters that are not vowels", "{v} not in 'aeiou'"),
    ("characters that are not digits", "not {v}.isdigit()"),
    ("characters that are not spaces", "{v} != ' '"),
    ("characters different from '{c}'", "{v} != '{c}'"),
    ("characters equal to '{c}'", "{v} == '{c}'"),
    ("characters that come before '{c}'", "{v} < '{c}'"),
    ("characters that come after '{c}'", "{v} > '{c}'"),
    ("characters", None),
]
CHAR_MAPS = [
    ("", "{v}"),
    ("", "{v}"),
    (", each in uppercase", "{v}.upper()"),
    (", each in lowercase", "{v}.lower()"),
    (", each repeated {d} times", "{v} * {d}"),
    (", each followed by '{p}'", "{v} + '{p}'"),
]
WORDS = [
    ("longer than {d} letters", "len({v}) > {d}"),
    ("shorter than {d} letters", "len({v}) < {d}"),
    ("with exactly {d} letters", "len({v}) == {d}"),
    ("that start with '{c}'", "{v}.startswith('{c}')"),
    ("that end with '{c}'", "{v}.endswith('{c}')"),
    ("that contain '{c}'", "'{c}' in {v}"),
    ("that do not contain '{c}'", "'{c}' not in {v}"),
    ("", None),
]
WORD_MAPS = [
    ("{np}", "{v}"),
    ("{np}, each in uppercase", "{v}.upper()"),
    ("{np}, each in lowercase", "{v}.lower()"),
    ("{np}, each capitalized", "{v}.capitalize()"),
    ("{np}, each reversed", "{v}[::-1]"),
    ("the first letters of {np}", "{v}[0]"),
    ("the last letters of {np}", "{v}[-1]"),
    ("the lengths of {np}", "len({v})"),
    ("the first {d} letters of {np}", "{v}[:{d}]"),
]
VOCAB = """apple tree house river Stone light Cloud moon green table under summer Paper winter music orange kite tiger
zebra Queen open idea eat ocean umbrella ice Robot7 x2 42 hello World small big code data Python loop list""".split()

LISTS = "xs nums numbers values arr lst data items my_list seq a".split()
INTS = "n m k num number value limit count".split()
STRS = "s text line phrase sentence string word my_string".split()
PAIRS = [("a", "b"), ("x", "y"), ("p", "q"), ("m", "n"), ("u", "v")]
NAMES = "f g h solve compute process calc func foo run answer task helper transform main_value".split()
NAMES += [
    f"{verb}_{noun}"
    for verb in """get find make calc compute eval build count check select collect
filter convert extract return process apply list sum""".split()
    for noun in """value result total list number answer data score item output numbers values digits
words letters text items sum even odd string pairs elements""".split()
]


REDUCERS = {  # English of a reduction of {it}
    "sum": ["the sum of {it}", "the total of {it}"],
    "product": ["the product of {it}"],
    "list": ["a list of {it}", "the list of {it}"],
    "sorted": ["a sorted list of {it}", "a list of {it} in ascending order"],
    "descending": [
        "a list of {it} in descending order",
        "a list of {it} sorted from largest to smallest",
    ],
    "max": [
        "the largest of {it}, or None if there are none",
        "the maximum of {it} (None if there are none)",
    ],
    "min": [
        "the smallest of {it}, or None if there are none",
        "the minimum of {it} (None if there are none)",
    ],
    "distinct": [
        "the number of distinct values among {it}",
        "how many different values there are among {it}",
    ],
    "running": ["the list of running totals of {it}", "a list of the cumulative sums of {it}"],
    "first": ["the first of {it}, or None if there are none"],
    "count": ["the number of {bare}", "how many {bare} there are", "the count of {bare}"],
}
