"""What the world has words for."""

PEOPLE = (
    "king",
    "baker",
    "child",
    "farmer",
    "doctor",
    "teacher",
    "soldier",
    "singer",
    "neighbour",
    "guest",
)
ANIMALS = ("horse", "dog", "cat", "goat", "hen", "mule", "sheep", "bear", "fish", "bird")
THINGS = (
    "apple",
    "book",
    "lamp",
    "knife",
    "coat",
    "ring",
    "boat",
    "cup",
    "letter",
    "stone",
    "rope",
    "drum",
)
FOODS = ("bread", "honey", "soup", "rice", "cheese", "salt", "plum", "milk")
PLACES = (
    "market",
    "forest",
    "river",
    "house",
    "bridge",
    "garden",
    "tower",
    "road",
    "school",
    "harbour",
)
JOBS = ("smith", "weaver", "miller", "judge", "sailor", "painter", "hunter", "tailor")
NOUNS = (*PEOPLE, *ANIMALS, *THINGS, *FOODS, *PLACES, *JOBS, "capital", "friend")
ADJECTIVES = (
    "red",
    "black",
    "white",
    "green",
    "old",
    "young",
    "small",
    "large",
    "good",
    "cold",
    "happy",
    "quiet",
)
# Verbs by the parts that they take: object; object and receiver; none.
WITH_OBJECT = ("see", "buy", "find", "lose", "carry", "hide", "wash", "draw", "steal", "want")
WITH_RECEIVER = ("give", "show", "send", "sell")
WITHOUT = ("sleep", "wait", "sing", "work", "laugh", "fall")
OF_FACTS = ("live", "own", "love", "make")
VERBS = (*WITH_OBJECT, *WITH_RECEIVER, *WITHOUT, *OF_FACTS)
TIMES = ("today", "yesterday", "always", "winter", "morning", "night")
