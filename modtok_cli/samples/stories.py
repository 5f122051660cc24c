"""Short stories in English, Finnish and French that a tiny model learns in minutes.

The same events are told in each language with its own words and forms. Everything follows from a
fixed seed.
"""

import random
from collections.abc import Sequence
from pathlib import Path

from modtok_cli.base.files import write_lines

LANGUAGES = ("en", "fi", "fr")
NAMES = (
    "Anna", "Clara", "David", "Emma", "Hugo", "Leo",
    "Maria", "Nina", "Oskar", "Paul", "Simon", "Sofia",
)  # fmt: skip
TRAINING, UNSEEN, QUESTIONS = 2_000, 30, 40

# Each entry: English, Finnish, French; forms of a word are separated by "/".
HOMES = [
    ("in the village", "kylässä", "au village"),
    ("by the river", "joen rannalla", "au bord de la rivière"),
    ("near the forest", "metsän lähellä", "près de la forêt"),
    ("on the hill", "mäellä", "sur la colline"),
    ("by the lake", "järven rannalla", "au bord du lac"),
]
SEASONS = [
    ("spring", "kevät", "le printemps"),
    ("summer", "kesä", "l'été"),
    ("autumn", "syksy", "l'automne"),
    ("winter", "talvi", "l'hiver"),
]
ANIMALS = [  # fr: indefinite/definite/gender
    ("dog", "koira", "un chien/le chien/m"),
    ("cat", "kissa", "un chat/le chat/m"),
    ("horse", "hevonen", "un cheval/le cheval/m"),
    ("goat", "vuohi", "une chèvre/la chèvre/f"),
    ("hen", "kana", "une poule/la poule/f"),
    ("sheep", "lammas", "un mouton/le mouton/m"),
]
COLOURS = [  # fr: masculine/feminine
    ("black", "musta", "noir/noire"),
    ("white", "valkoinen", "blanc/blanche"),
    ("grey", "harmaa", "gris/grise"),
    ("brown", "ruskea", "brun/brune"),
]
GOALS = [
    ("to the market", "torille", "au marché"),
    ("to the shop", "kauppaan", "à la boutique"),
    ("to town", "kaupunkiin", "en ville"),
    ("to the harbour", "satamaan", "au port"),
]
GIFTS = [  # need, then en: some/the; fi: what is bought/what is given/nominative; fr: some/the
    (0, "some bread/the bread", "leipää/leivän/leipä", "du pain/le pain"),
    (0, "some cheese/the cheese", "juustoa/juuston/juusto", "du fromage/le fromage"),
    (0, "an apple/the apple", "omenan/omenan/omena", "une pomme/la pomme"),
    (0, "a cake/the cake", "kakun/kakun/kakku", "un gâteau/le gâteau"),
    (1, "a coat/the coat", "takin/takin/takki", "un manteau/le manteau"),
    (1, "a blanket/the blanket", "peiton/peiton/peitto", "une couverture/la couverture"),
    (1, "a scarf/the scarf", "huivin/huivin/huivi", "une écharpe/l'écharpe"),
    (2, "some milk/the milk", "maitoa/maidon/maito", "du lait/le lait"),
    (2, "some juice/the juice", "mehua/mehun/mehu", "du jus/le jus"),
    (2, "some tea/the tea", "teetä/teen/tee", "du thé/le thé"),
]
NEEDS = [
    ("hungry", "nälkä", "faim"),
    ("cold", "kylmä", "froid"),
    ("thirsty", "jano", "soif"),
]
EVENINGS = [
    ("reads a book", "lukee kirjaa", "lit un livre"),
    ("sings a song", "laulaa laulun", "chante une chanson"),
    ("writes a letter", "kirjoittaa kirjeen", "écrit une lettre"),
    ("lights the lamp", "sytyttää lampun", "allume la lampe"),
]
BEDS = [
    ("in the garden", "puutarhassa", "dans le jardin"),
    ("in front of the house", "talon edessä", "devant la maison"),
    ("under a tree", "puun alla", "sous un arbre"),
]

# Sentences in order, each with one or two ways to say it. "?" marks what a story may lack.
TEMPLATES = {
    "en": [
        ["{n} lives {home}.", "{n} has a small house {home}."],
        ["?It is {season}."],
        ["{n} has a {colour} {animal}.", "There is a {colour} {animal} in {n}'s yard."],
        ["In the morning {n} goes {goal}.", "Today {n} and the {animal} go {goal}."],
        ["There {n} buys {some}.", "{n} finds {some} there."],
        ["On the way home {n} meets {m}.", "Then {n} sees {m}."],
        ["{m} is {need}.", "Poor {m} is {need}."],
        ["{n} gives {the} to {m}."],
        ['?"Thank you, {n}!" says {m}.'],
        ["Now {m} has {the} and smiles.", "Now {m} is happy."],
        ["?In the evening {n} {evening}."],
        ["The {animal} sleeps {bed}.", "At night the {animal} sleeps {bed}."],
    ],
    "fi": [
        ["{n} asuu {home}.", "{n:lla} on pieni talo {home}."],
        ["?On {season}."],
        ["{n:lla} on {colour} {animal}.", "{n:n} pihalla on {colour} {animal}."],
        ["Aamulla {n} menee {goal}.", "Tänään {n} ja {animal} menevät {goal}."],
        ["Siellä {n} ostaa {some}.", "{n} löytää sieltä {some}."],
        ["Kotimatkalla {n} tapaa {m:n}.", "Sitten {n} näkee {m:n}."],
        ["{m:lla} on {need}.", "{m}-paralla on {need}."],
        ["{n} antaa {the} {m:lle}."],
        ["?”Kiitos, {n}!” sanoo {m}."],
        ["Nyt {gift} on {m:lla}, ja {m} hymyilee.", "Nyt {m} on iloinen."],
        ["?Illalla {n} {evening}."],
        ["{animal!c} nukkuu {bed}.", "Yöllä {animal} nukkuu {bed}."],
    ],
    "fr": [
        ["{n} habite {home}.", "{n} a une petite maison {home}."],
        ["?C'est {season}."],
        ["{n} a {animal_a} {colour}.", "Chez {n}, il y a {animal_a} {colour}."],
        ["Le matin, {n} va {goal}.", "Aujourd'hui, {n} et {animal} vont {goal}."],
        ["Là, {n} achète {some}.", "{n} y trouve {some}."],
        ["Sur le chemin du retour, {n} rencontre {m}.", "Puis {n} voit {m}."],
        ["{m} a {need}.", "Hélas, {m} a {need}."],
        ["{n} donne {the} à {m}."],
        ["?« Merci, {n} ! » dit {m}."],
        ["Maintenant, {m} a {the} et sourit.", "Maintenant, {m} est de bonne humeur."],
        ["?Le soir, {n} {evening}."],
        ["{animal!c} dort {bed}.", "La nuit, {animal} dort {bed}."],
    ],
}
GOING, GIVING = 3, 7  # the sentences that a question begins with and asks for


def finnish(name: str, ending: str) -> str:
    """The name in a case: Anna, Annalla; Paul, Paulilla."""
    return name + ("" if name[-1] in "ao" else "i") + ending


def draw_events(draw: random.Random) -> dict[str, int]:
    """Draw the events: an index into each list of words."""
    lists: dict[str, Sequence[tuple[object, ...]]]
    lists = {"home": HOMES, "season": SEASONS, "animal": ANIMALS, "colour": COLOURS}
    lists |= {"goal": GOALS, "gift": GIFTS, "evening": EVENINGS, "bed": BEDS}
    events = {name: draw.randrange(len(words)) for name, words in lists.items()}
    events["n"], events["m"] = draw.sample(range(len(NAMES)), 2)
    return events


def words_of(events: dict[str, int], language: str) -> dict[str, str]:
    """The words and forms that the templates of a language name."""
    column = LANGUAGES.index(language)
    lists = {"home": HOMES, "season": SEASONS, "goal": GOALS, "evening": EVENINGS, "bed": BEDS}
    words = {name: entries[events[name]][column] for name, entries in lists.items()}
    need, *gift = GIFTS[events["gift"]]
    some, the, *rest = gift[column].split("/")
    animal, colour = ANIMALS[events["animal"]][column], COLOURS[events["colour"]][column]
    if language == "fr":
        words["animal_a"], animal, gender = animal.split("/")
        colour = colour.split("/")["mf".index(gender)]
    words |= {"some": some, "the": the, "gift": rest[0] if rest else the}
    words |= {"animal": animal, "animal!c": animal.capitalize(), "colour": colour}
    words["need"] = NEEDS[need][column]
    for who in "nm":
        name = NAMES[events[who]]
        words[who] = name
        words |= {f"{who}:{ending}": finnish(name, ending) for ending in ("n", "lla", "lle")}
    return words


def told(template: str, words: dict[str, str]) -> str:
    """A sentence of a template."""
    for name, word in words.items():
        template = template.replace("{" + name + "}", word)
    return template.lstrip("?")


def tell(events: dict[str, int], language: str, draw: random.Random) -> list[str]:
    """The sentences of a story; empty where the story lacks one."""
    words = words_of(events, language)
    sentences = []
    for ways in TEMPLATES[language]:
        left_out = ways[0].startswith("?") and draw.random() < 0.5
        sentences.append("" if left_out else told(draw.choice(ways), words))
    return sentences


def text_of(sentences: list[str]) -> str:
    """The story as one line."""
    return " ".join(filter(None, sentences))


def ask(number: int, language: str, draw: random.Random) -> dict[str, object]:
    """A question: how somebody came to a gift, and four sentences of which one goes on."""
    events = draw_events(draw)
    need = GIFTS[events["gift"]][0]
    useless = [number for number, gift in enumerate(GIFTS) if gift[0] != need]
    gifts = [events["gift"], *draw.sample(useless, 3)]
    draw.shuffle(gifts)
    template = TEMPLATES[language][GIVING][0]
    return {
        "id": str(number),
        "question": text_of(tell(events, language, draw)[GOING:GIVING]),
        "choices": [told(template, words_of({**events, "gift": gift}, language)) for gift in gifts],
        "answer": gifts.index(events["gift"]),
    }


def write_stories(directory: Path) -> None:
    """Write below `directory`:

    stories/<lang>.jsonl            2,000 stories of each language to train on
    unseen/<lang>.txt               30 others to measure on
    tasks/mcq/stories/<lang>.jsonl  who gets what? 40 questions on other stories
    """
    tasks = directory / "tasks/mcq/stories"
    for folder in (directory / "stories", directory / "unseen", tasks):
        folder.mkdir(parents=True, exist_ok=True)
    (tasks / "task.yaml").write_text(
        'task: stories\ntitle: stories\nabout: who gets what\nprompt: "{question}"\nshots: 0\n'
        "normalization: none\n"
    )
    for language in LANGUAGES:
        draw = random.Random(f"stories {language}")
        texts = [text_of(tell(draw_events(draw), language, draw)) for _ in range(TRAINING + UNSEEN)]
        asked = [ask(number, language, draw) for number in range(QUESTIONS)]
        write_lines(
            directory / "stories" / f"{language}.jsonl",
            ({"text": text} for text in texts[:TRAINING]),
        )
        write_lines(tasks / f"{language}.jsonl", asked)
        unseen = "".join(text + "\n" for text in texts[TRAINING:])
        (directory / "unseen" / f"{language}.txt").write_text(unseen, encoding="utf-8")
