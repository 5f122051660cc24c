"""What the world has words for."""

PEOPLE = ("king", "baker", "child", "farmer", "doctor", "soldier")
ANIMALS = ("horse", "dog", "cat", "goat", "bear", "bird")
THINGS = ("apple", "book", "lamp", "knife", "coat", "boat")
FOODS = ("bread", "honey", "soup", "rice", "cheese")
PLACES = ("market", "forest", "river", "house", "bridge")
JOBS = ("smith", "weaver", "miller", "judge", "sailor")
NOUNS = (*PEOPLE, *ANIMALS, *THINGS, *FOODS, *PLACES, *JOBS, "capital", "friend")
ADJECTIVES = ("red", "black", "green", "old", "small", "cold")
# Verbs by the parts that they take: object; object and receiver; none.
WITH_OBJECT = ("see", "buy", "find", "lose", "carry", "hide")
WITH_RECEIVER = ("give", "sell")
WITHOUT = ("sleep", "wait", "sing", "work")
OF_FACTS = ("live", "own", "love", "make")
VERBS = (*WITH_OBJECT, *WITH_RECEIVER, *WITHOUT, *OF_FACTS)
TIMES = ("today", "always", "winter", "night")
