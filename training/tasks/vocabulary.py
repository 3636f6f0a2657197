"""The words that stories are told with.

A small model learns to copy a name or a noun from the question into the answer only if it sees very
many different ones; that is why a few of them are invented on the spot.
"""

MALE = """Tom Ben Sam Max Leo Jack Adam Paul Mark Luke Noah Ryan Eric Carl Dan Ivan Omar Ravi Hugo
Felix Oscar James Peter Kevin Brian Simon David Henry Alan Victor Jim Bob Tim Greg Liam Ethan Mason
Logan John Bill Mike Steve Andrew George Frank Joe Nick Ken Ali Ahmed Juan Diego Pablo Jorge Marco
Luca Paolo Hans Otto Karl Jan Piotr Yuri Igor Chen Wei Kenji Raj Arjun Kofi Kwame Josh Jacob Toby
Tyler Zack Sean Neil Owen Miles Theo Finn Jude""".split()
FEMALE = """Amy Anna Emma Lily Mia Zoe Sara Kate Lucy Ella Nina Rosa Jane Maria Julia Alice Grace
Clara Helen Laura Diana Maya Priya Ruth Eva Olivia Sophie Wendy Tina Nora Mary Lisa Beth Carol Judy
Paula Rita Vera Susan Karen Linda Betty Janet Sally Molly Daisy Ivy Hazel Stella Bella Chloe Hannah
Leah Naomi Aisha Fatima Layla Yuki Mei Ling Ananya Ingrid Greta Frida Heidi Elena Sofia Carmen Ines
Bianca Gina Megan Erin Holly Jenny Kim Tara Joy""".split()
THINGS = """marble sticker card stamp shell bead button coin balloon pencil crayon ribbon postcard badge
puppet figurine comic poster magnet ticket rock feather token toy book pen notebook bottle candle
photo brick block key flower rose tile lamp ball cup plate brush stick star ring doll puzzle game
envelope bulb screw nail towel sock box""".split()
FOODS = """apple orange cookie muffin cupcake banana pear plum lemon carrot donut pancake bagel grape
walnut tart brownie waffle pretzel peach cherry strawberry mango egg candy sandwich potato tomato
nut sweet chocolate lollipop roll biscuit melon onion berry lime""".split()
BAKED = "cookie muffin cupcake brownie roll tart scone pie bagel biscuit waffle pancake pretzel".split()
GOODS = """book shirt pen notebook mug cap lamp pizza scooter kite puzzle game plant towel hat ball doll
bowl plate cup vase chair pillow blanket jacket belt sweater backpack calendar umbrella toy watch
scarf poster candle basket dress bag ticket magazine sandwich burger coffee cake juice""".split()
TREASURES = "bike phone tablet guitar camera tent watch drone skateboard laptop piano coat console".split()
PLANTS = "tomato rose bean corn pepper tulip pumpkin cabbage carrot apple cherry".split()
PACKS = "box bag pack jar basket crate tray bucket carton packet".split()
PLACES = "park library museum beach lake airport market stadium zoo theater station farm".split()
JOBS = """mowing lawns/walking dogs/washing cars/babysitting/tutoring/painting fences/shoveling snow/
delivering papers/cleaning windows/picking fruit""".replace("\n", "").split("/")
WORKERS = """waiter cook driver teacher nurse gardener cashier painter plumber guard clerk baker tailor
mechanic librarian""".split()
RELATIVES = "aunt uncle grandmother grandfather mother father sister brother cousin grandma dad mom".split()
GROUPS = "friends children cousins neighbors students classmates kids".split()
NUMBERS = """zero one two three four five six seven eight nine ten eleven twelve""".split()
TIMES = {2: "twice", 3: "three times", 4: "four times", 5: "five times"}
FRACTIONS = {2: "half", 3: "a third", 4: "a quarter", 5: "a fifth"}
SYLLABLES = "ba be bo da do fi ga go ka ki la le lo ma mi mo na ne no pa po ra ri ro sa so ta ti to va vi zo".split()


def plural(noun):
    if noun.endswith(("s", "x", "ch", "sh", "tomato", "potato")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeo":
        return noun[:-1] + "ies"
    return noun if noun == "corn" else noun + "s"


def a(noun):
    """The noun with its article."""
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def invented(rng):
    """A noun or name that exists in no dictionary."""
    return "".join(rng.choice(SYLLABLES) for _ in range(rng.choice((2, 2, 3))))
