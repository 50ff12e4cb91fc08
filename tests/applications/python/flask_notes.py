"""Flask-PyMongo: an application of notes with pages, lookups by id and files."""

import io
import sys
from urllib.parse import urlsplit, urlunsplit

from flask import Flask, jsonify, request
from flask_pymongo import BSONObjectIdConverter, PyMongo

parts = urlsplit(sys.argv[1])
app = Flask(__name__)
app.url_map.converters["ObjectId"] = BSONObjectIdConverter
mongo = PyMongo(app, urlunsplit(parts._replace(path="/flask_notes")))


@app.get("/notes")
def notes():
    found = mongo.db.notes.find({"text": {"$regex": request.args.get("q", "")}}).sort("text")
    return jsonify([{"id": str(note["_id"]), "text": note["text"]} for note in found])


@app.post("/notes")
def add():
    return jsonify(str(mongo.db.notes.insert_one({"text": request.json["text"]}).inserted_id))


@app.get("/notes/<ObjectId:note_id>")
def note(note_id):
    return mongo.db.notes.find_one_or_404({"_id": note_id})["text"]


@app.post("/files/<name>")
def upload(name):
    mongo.save_file(name, request.files["file"])
    return "saved"


@app.get("/files/<name>")
def download(name):
    return mongo.send_file(name)


mongo.cx.drop_database("flask_notes")
client = app.test_client()
ids = [client.post("/notes", json={"text": text}).json for text in ("milk", "bread", "silk")]
assert client.get(f"/notes/{ids[1]}").text == "bread"
assert client.get(f"/notes/{'0' * 24}").status_code == 404
assert [found["text"] for found in client.get("/notes?q=ilk").json] == ["milk", "silk"]
assert client.post("/files/a.txt", data={"file": (io.BytesIO(b"y" * 300_000), "a.txt")}).text == "saved"
assert client.get("/files/a.txt").data == b"y" * 300_000
assert client.get("/files/none").status_code == 404
mongo.cx.drop_database("flask_notes")
