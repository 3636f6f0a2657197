"""Pictures of runs, and their records as a frame."""

import importlib.util
import json
import math
import re
import unittest
from html import unescape
from html.parser import HTMLParser
from xml.etree import ElementTree

import lacunalm as lacuna

MASK, END = 9, 8


def predict(tokens):
    """Position i wants token i mod 7, and is the surer the further to the left it is."""
    return [[5.0 - 0.1 * at if token == at % 7 else 0.0 for token in range(10)] for at in range(len(tokens))]


def without(package):
    return unittest.skipIf(importlib.util.find_spec(package) is None, f"{package} is not installed")


class Cells(HTMLParser):
    """The states of each cell, and what it shows at first."""

    def __init__(self, page):
        super().__init__()
        self.states, self.shown, self.inside = [], [], False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        states = dict(attributes).get("data-states")
        self.inside = states is not None
        if self.inside:
            self.states.append(json.loads(states))

    def handle_data(self, text):
        if self.inside:
            self.shown.append(text)
            self.inside = False


class Pictures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.result = lacuna.decode(predict, [1, 2], mask_token=MASK, gen_length=6, strategy="confidence+top2")

    def test_a_notebook_shows_each_token_from_its_step_on(self):
        cells = Cells(self.result._repr_html_())
        self.assertEqual(cells.shown, [str(token) for token in self.result.tokens])
        self.assertEqual([states[0][:2] for states in cells.states], [[1, 4], [1, 4], [2, 4], [2, 4], [3, 4], [3, 4]])

    def test_a_token_that_was_taken_back_is_open_again(self):
        line = json.loads(self.result.to_json())
        line["steps"][1]["remasked"] = [2]
        line["steps"][2]["unmasked"].insert(0, [2, 5])
        states = Cells(lacuna.Result(json.dumps(line))._repr_html_()).states[0]
        self.assertEqual([state[:3] for state in states], [[1, 2, "2"], [3, 4, "5"]])

    def test_what_was_given_is_there_from_the_beginning(self):
        model = lacuna.Model(device="cpu")
        prompt = "Sara has 24 pens and gives 9 away. How many are left?"
        filled = model.fill("Sara still has <gap:5> = 15 pens.", prompt=prompt)
        revised = model.revise("24 - 9 = 13\n#### 15", prompt=prompt)
        for result, begins in [(filled, "Sara still has ░░░░░ = 15 pens."), (revised, "24 - 9 = 13\n#### 15")]:
            result = lacuna.Result(result.to_json())
            cells = Cells(result._repr_html_())
            self.assertEqual("".join(cells.shown), result.text)
            at_first = [next((text for since, _, text, _ in states if since == 0), "░") for states in cells.states]
            self.assertEqual("".join(at_first), begins)
            self.assertIn(result.text.split()[0], "".join(ElementTree.fromstring(result.svg()).itertext()))
        answered = model.generate(prompt, gen_length=64)
        self.assertRegex("".join(Cells(answered._repr_html_()).shown), f"^{re.escape(answered.text)}·+$")

    def test_text_of_a_model_does_not_become_markup(self):
        line = json.loads(self.result.to_json())
        line["steps"][0]["details"][0]["text"] = "<script>&"
        result = lacuna.Result(json.dumps(line))
        for page in (result._repr_html_(), result.svg()):
            self.assertNotIn("<script>&", page)
            self.assertIn("<script>&", unescape(re.sub(r"<[^>]*>", "", page)))

    def test_the_picture_is_svg_with_the_canvas_at_four_moments(self):
        picture = ElementTree.fromstring(self.result.svg())
        panels = picture.findall("{http://www.w3.org/2000/svg}g")
        texts = ["".join(panel.itertext()).split() for panel in panels]
        self.assertEqual(texts[0], ["step", "0", "░" * 6])
        self.assertEqual([text[1] for text in texts], ["0", "1", "2", "3"])
        self.assertEqual(texts[-1][2], "".join(str(token) for token in self.result.tokens))
        narrow = ElementTree.fromstring(self.result.svg(columns=2))
        self.assertEqual(len(list(narrow.iter("{http://www.w3.org/2000/svg}text"))), 4 * (1 + 3))
        self.assertRaises(ValueError, self.result.svg, columns=0)

    def test_a_result_that_was_read_again_equals_itself(self):
        self.assertEqual(lacuna.Result(self.result.to_json()), self.result)
        left = lacuna.decode(predict, [1, 2], mask_token=MASK, gen_length=6, strategy="left")
        again = lacuna.Result(left.to_json())
        self.assertEqual(again, left)
        self.assertNotEqual(again, self.result)
        line = json.loads(left.to_json())
        line["steps"][0]["details"][0]["probability"] += 1e-6
        self.assertNotEqual(lacuna.Result(json.dumps(line)), left)

    @without("pandas")
    def test_records_as_a_frame(self):
        frame = self.result.to_pandas()
        self.assertEqual(list(frame.step), [0, 0, 1, 1, 2, 2])
        self.assertEqual(sorted(frame.position), [2, 3, 4, 5, 6, 7])
        self.assertTrue(((frame.probability > 0) & (frame.probability <= 1)).all())
        self.assertTrue(math.isclose(frame.entropy.iloc[0], self.result.steps[0].committed[0].entropy))

    @without("matplotlib")
    def test_a_plot_has_a_point_for_each_decision(self):
        import matplotlib

        matplotlib.use("Agg")
        axes = self.result.plot()
        points = axes.collections[0].get_offsets()
        self.assertEqual(sorted(map(tuple, points.tolist())), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (5, 2)])
        self.assertIn("3 forward passes", axes.get_title())
        self.assertIs(self.result.plot(axes), axes)
        axes.figure.canvas.draw()


if __name__ == "__main__":
    unittest.main()
