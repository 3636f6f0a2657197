"""The examples in docs/python.md run."""

import contextlib
import io
import pathlib
import re
import unittest

GUIDE = pathlib.Path(__file__).parents[3] / "docs" / "python.md"


class Guide(unittest.TestCase):
    def test_examples_run(self):
        examples = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
        names = {}
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            for example in examples:
                exec(compile(example, str(GUIDE), "exec"), names)
        self.assertIn("Sara still has 24 - 9 = 15 pens.", printed.getvalue())


if __name__ == "__main__":
    unittest.main()
