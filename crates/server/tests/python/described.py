"""Holds a description of HTTP against the specification of OpenAPI, and answers of a server against the description.

    python described.py OPENAPI ANSWERS

ANSWERS is a JSON array of {"method", "route", "asked", "status", "content_type", "answered"}. Whatever is wrong is printed, all of
it, and the exit code is 1.
"""

import json
import sys

import jsonschema
import openapi_spec_validator
import referencing
from referencing.jsonschema import DRAFT202012

HERE = "urn:description"


def closed(value):
    """The same description, in which no object has a property that is not described. A client must bear one, a test must not."""
    if isinstance(value, list):
        return [closed(item) for item in value]
    if not isinstance(value, dict):
        return value
    value = {name: closed(item) for name, item in value.items()}
    if value.get("type") == "object" and isinstance(value.get("properties"), dict):
        value.setdefault("additionalProperties", False)
    return value


def problems(registry, schema_at, value):
    """What is wrong with a value, held against the schema under these names."""
    pointer = "/".join(str(name).replace("~", "~0").replace("/", "~1") for name in schema_at)
    validator = jsonschema.Draft202012Validator({"$ref": f"{HERE}#/{pointer}"}, registry=registry)
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]


def check(document, registry, answer):
    operation = document["paths"][answer["route"]][answer["method"]]
    at = ["paths", answer["route"], answer["method"]]
    asked = operation.get("requestBody", {}).get("content", {})
    if answer["status"] == 200 and "application/json" in asked:
        yield from problems(registry, at + ["requestBody", "content", "application/json", "schema"], json.loads(answer["asked"]))
    status = str(answer["status"])
    status = status if status in operation["responses"] else "default"
    content_type = answer["content_type"].split(";")[0]
    if content_type not in operation["responses"][status]["content"]:
        yield f"{content_type} is not described"
        return
    at += ["responses", status, "content", content_type, "schema"]
    if content_type == "application/x-ndjson":
        values = [json.loads(line) for line in answer["answered"].splitlines()]
        if not values:
            yield "there is nothing to check"
    elif content_type == "application/json":
        values = [json.loads(answer["answered"])]
    else:
        values = [answer["answered"]]
    for value in values:
        yield from problems(registry, at, value)


def main(document_path, answers_path):
    with open(document_path, encoding="utf-8") as file:
        document = json.load(file)
    with open(answers_path, encoding="utf-8") as file:
        answers = json.load(file)
    openapi_spec_validator.validate(document)
    document = closed(document)
    resource = referencing.Resource.from_contents(document, default_specification=DRAFT202012)
    registry = referencing.Registry().with_resource(HERE, resource)
    wrong = 0
    for answer in answers:
        for problem in check(document, registry, answer):
            wrong += 1
            print(f"{answer['method']} {answer['route']} {answer['status']}: {problem}")
    if wrong:
        sys.exit(1)
    print(f"the description is valid, and {len(answers)} answers are as described")


main(*sys.argv[1:])
