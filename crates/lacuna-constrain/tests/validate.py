"""Checks lines of {"schema": ..., "text": ...} from standard input with the jsonschema package."""

import json
import sys

from jsonschema import Draft202012Validator

checked = wrong = 0
for line in sys.stdin:
    case = json.loads(line)
    Draft202012Validator.check_schema(case["schema"])
    validator = Draft202012Validator(case["schema"], format_checker=Draft202012Validator.FORMAT_CHECKER)
    errors = [error.message for error in validator.iter_errors(json.loads(case["text"]))]
    checked += 1
    if errors:
        wrong += 1
        print(f"{case['text']}\n  {errors[0]}\n  {json.dumps(case['schema'])}")
print(f"{checked} texts checked, {wrong} wrong")
sys.exit(1 if wrong or not checked else 0)
