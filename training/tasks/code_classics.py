"""Functions that everybody asks for first. They are few, so they are never held out: a benchmark made
of them would test memory. They are here so that a request typed by hand finds something familiar.
"""

CLASSICS = [  # usual name, parameters, what it returns, bodies by style
    ("add", "a b", ["the sum of a and b", "a plus b"], [["return a + b"]]),
    ("subtract", "a b", ["the difference of a and b", "a minus b"], [["return a - b"]]),
    ("multiply", "a b", ["the product of a and b", "a times b"], [["return a * b"]]),
    (
        "maximum",
        "a b",
        ["the larger of a and b", "the maximum of a and b"],
        [["return max(a, b)"], ["return a if a > b else b"]],
    ),
    (
        "minimum",
        "a b",
        ["the smaller of a and b", "the minimum of a and b"],
        [["return min(a, b)"], ["return a if a < b else b"]],
    ),
    (
        "max_of_three",
        "a b c",
        ["the largest of a, b and c", "the maximum of three numbers a, b and c"],
        [["return max(a, b, c)"]],
    ),
    ("average", "a b", ["the average of a and b", "the mean of a and b"], [["return (a + b) / 2"]]),
    ("is_even", "n", ["whether n is even", "True if n is even"], [["return n % 2 == 0"]]),
    ("is_odd", "n", ["whether n is odd", "True if n is odd"], [["return n % 2 == 1"]]),
    ("square", "n", ["the square of n", "n squared"], [["return n * n"], ["return n ** 2"]]),
    ("cube", "n", ["the cube of n", "n cubed"], [["return n ** 3"]]),
    ("double", "n", ["twice n", "n doubled", "the double of n"], [["return n * 2"]]),
    (
        "absolute",
        "n",
        ["the absolute value of n"],
        [["return abs(n)"], ["return n if n >= 0 else -n"]],
    ),
    (
        "factorial",
        "n",
        ["the factorial of n", "n factorial"],
        [
            ["result = 1", "for i in range(2, n + 1):", "    result *= i", "return result"],
            ["if n <= 1:", "    return 1", "return n * factorial(n - 1)"],
        ],
    ),
    (
        "fibonacci",
        "n",
        ["the n-th Fibonacci number", "the nth fibonacci number"],
        [["a, b = 0, 1", "for _ in range(n):", "    a, b = b, a + b", "return a"]],
    ),
    (
        "is_prime",
        "n",
        ["whether n is prime", "True if n is a prime number"],
        [
            [
                "if n < 2:",
                "    return False",
                "for i in range(2, n):",
                "    if n % i == 0:",
                "        return False",
                "return True",
            ],
            ["return n > 1 and all(n % i != 0 for i in range(2, n))"],
        ],
    ),
    (
        "gcd",
        "a b",
        ["the greatest common divisor of a and b"],
        [["while b:", "    a, b = b, a % b", "return a"]],
    ),
    ("power", "a b", ["a to the power of b", "a raised to the power b"], [["return a ** b"]]),
    (
        "is_leap_year",
        "year",
        ["whether year is a leap year"],
        [["return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)"]],
    ),
    (
        "reverse_string",
        "s",
        ["the reverse of the string s", "s reversed", "the string s reversed"],
        [["return s[::-1]"]],
    ),
    (
        "is_palindrome",
        "s",
        ["whether s is a palindrome", "True if the string s is a palindrome"],
        [["return s == s[::-1]"]],
    ),
    (
        "count_vowels",
        "s",
        ["the number of vowels in s", "how many vowels there are in s"],
        [
            ["return sum(1 for c in s if c in 'aeiou')"],
            [
                "count = 0",
                "for c in s:",
                "    if c in 'aeiou':",
                "        count += 1",
                "return count",
            ],
        ],
    ),
    (
        "count_words",
        "s",
        ["the number of words in s", "how many words there are in s"],
        [["return len(s.split())"]],
    ),
    ("to_upper", "s", ["s in uppercase", "the uppercase version of s"], [["return s.upper()"]]),
    ("to_lower", "s", ["s in lowercase", "the lowercase version of s"], [["return s.lower()"]]),
    (
        "string_length",
        "s",
        ["the length of s", "the number of characters in s"],
        [["return len(s)"]],
    ),
    ("first_char", "s", ["the first character of s"], [["return s[0]"]]),
    ("last_char", "s", ["the last character of s"], [["return s[-1]"]]),
    (
        "sum_list",
        "numbers",
        [
            "the sum of a list of numbers",
            "the sum of numbers",
            "the sum of all numbers in the list",
        ],
        [
            ["return sum(numbers)"],
            ["total = 0", "for x in numbers:", "    total += x", "return total"],
        ],
    ),
    (
        "mean",
        "numbers",
        ["the average of a list of numbers", "the mean of numbers"],
        [["return sum(numbers) / len(numbers)"]],
    ),
    (
        "largest",
        "numbers",
        [
            "the largest number in the list",
            "the maximum of numbers",
            "the biggest number in a list",
        ],
        [["return max(numbers)"]],
    ),
    (
        "smallest",
        "numbers",
        ["the smallest number in the list", "the minimum of numbers"],
        [["return min(numbers)"]],
    ),
    (
        "reverse_list",
        "items",
        ["the list items reversed", "a reversed copy of items"],
        [["return items[::-1]"], ["return list(reversed(items))"]],
    ),
    (
        "unique",
        "items",
        ["the items without duplicates", "a list of the distinct elements of items"],
        [
            [
                "result = []",
                "for x in items:",
                "    if x not in result:",
                "        result.append(x)",
                "return result",
            ],
            ["return list(dict.fromkeys(items))"],
        ],
    ),
    (
        "sort_list",
        "items",
        ["the sorted list items", "items in ascending order", "a sorted copy of items"],
        [["return sorted(items)"]],
    ),
    (
        "sum_digits",
        "n",
        ["the sum of the digits of n"],
        [["return sum(map(int, str(n)))"], ["return sum(int(d) for d in str(n))"]],
    ),
    (
        "celsius_to_fahrenheit",
        "c",
        ["the temperature c in degrees Fahrenheit"],
        [["return c * 9 / 5 + 32"]],
    ),
    (
        "area",
        "width height",
        ["the area of a rectangle", "width times height"],
        [["return width * height"]],
    ),
    (
        "perimeter",
        "width height",
        ["the perimeter of a rectangle"],
        [["return 2 * (width + height)"]],
    ),
    ("swap", "a b", ["b and a as a tuple", "the pair of b and a"], [["return b, a"]]),
    (
        "greet",
        "name",
        ["'Hello, ' followed by name", "a greeting for name"],
        [["return 'Hello, ' + name"], ["return f'Hello, {name}'"]],
    ),
    (
        "fizzbuzz",
        "n",
        ["'FizzBuzz' if n is divisible by 15, 'Fizz' if by 3, 'Buzz' if by 5, otherwise n"],
        [
            [
                "if n % 15 == 0:",
                "    return 'FizzBuzz'",
                "if n % 3 == 0:",
                "    return 'Fizz'",
                "if n % 5 == 0:",
                "    return 'Buzz'",
                "return n",
            ]
        ],
    ),
]


def classic(t):
    """One of the classics, mostly under its usual name."""
    name, params, whats, bodies = t.pick(*CLASSICS)
    body = t.pick(*bodies)
    t.params, t.what, t.styles = params.split(), t.pick(*whats), {"only": body}
    recursive = any(f"{name}(" in line for line in body)
    t.name = name if recursive or t.maybe(0.7) else None
    t.args, t.key = None, f"classic|{name}"
