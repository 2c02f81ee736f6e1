"""Evaluates policies: the subset of IAM's rules that the functions' policies use."""

import fnmatch
import json

#: Supported conditions; any other condition is an error, not a permission.
UNDERSTOOD = {"StringLikeIfExists", "StringLike"}


def as_list(value):
    return value if isinstance(value, list) else [value]


def like(patterns, text):
    # IAM supports * and ?, but no [classes].
    return any(fnmatch.fnmatchcase(text, pattern.replace("[", "[[]")) for pattern in as_list(patterns))


def holds(condition, context):
    for operator, keys in condition.items():
        if operator not in UNDERSTOOD:
            raise ValueError(f"a condition that nobody evaluates here: {operator}")
        for key, patterns in keys.items():
            if key not in context:
                if not operator.endswith("IfExists"):
                    return False
            elif not like(patterns, context[key]):
                return False
    return True


class Policy:
    def __init__(self, text):
        self.statements = json.loads(text)["Statement"]
        for statement in self.statements:
            strange = set(statement) - {"Sid", "Effect", "Action", "Resource", "Condition"}
            if strange or statement["Effect"] != "Allow":
                raise ValueError(f"a statement that nobody evaluates here: {statement}")

    def allows(self, action, resource, **context):
        """Whether an action on a resource is allowed; `context` has the values of conditions, with `_` for `:` in names."""
        given = {name.replace("_", ":", 1): value for name, value in context.items()}
        return any(
            like([a.lower() for a in as_list(statement["Action"])], action.lower())
            and like(statement["Resource"], resource)
            and holds(statement.get("Condition", {}), given)
            for statement in self.statements
        )
