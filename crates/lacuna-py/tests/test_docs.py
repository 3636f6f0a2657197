"""The examples in docs/python.md run, and the stubs say what the module says."""

import ast
import contextlib
import inspect
import io
import pathlib
import re
import runpy
import unittest

import lacunalm as lacuna

EXAMPLE = pathlib.Path(__file__).parents[1] / "examples" / "own_model.py"
GUIDE = pathlib.Path(__file__).parents[3] / "docs" / "python.md"


class Guide(unittest.TestCase):
    def test_examples_run(self):
        examples = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
        names = {}
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            for example in examples:
                exec(compile(example, str(GUIDE), "exec"), names)
        self.assertIn("Sara still has 24 - 9 = 15 pens.", printed.getvalue())

    def test_the_model_of_ones_own_decodes(self):
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not installed")
        torch.set_num_threads(1)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            runpy.run_path(str(EXAMPLE))
        self.assertIn("dos+eb: ", printed.getvalue())


class Stubs(unittest.TestCase):
    def test_every_part_is_described_and_described_alike(self):
        stubs = ast.parse(pathlib.Path(lacuna.__file__).with_name("_native.pyi").read_text())
        [names] = [ast.literal_eval(node.value) for node in stubs.body if isinstance(node, ast.Assign)]
        self.assertCountEqual(names, lacuna._native.__all__)
        classes = {node.name: node for node in stubs.body if isinstance(node, ast.ClassDef)}
        native = {name: part for name, part in vars(lacuna._native).items() if inspect.isclass(part)}
        self.assertEqual(classes.keys(), native.keys())
        for name, part in native.items():
            self.assertEqual(ast.get_docstring(classes[name]), inspect.getdoc(part), name)
            members = [node for node in classes[name].body if isinstance(node, ast.FunctionDef)]
            docs = {node.name: ast.get_docstring(node) for node in members if not node.name.startswith("__")}
            there = {
                member: inspect.getdoc(value) for member, value in vars(part).items() if not member.startswith("__")
            }
            self.assertEqual(docs, there, name)


if __name__ == "__main__":
    unittest.main()
