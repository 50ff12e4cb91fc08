"""MongoEngine: references, embedded and generic documents, inheritance, text search, map-reduce, files, cascades."""

import sys

from mongoengine import (
    CASCADE,
    BooleanField,
    Document,
    EmbeddedDocument,
    EmbeddedDocumentListField,
    FileField,
    GenericReferenceField,
    IntField,
    ListField,
    NotUniqueError,
    PointField,
    Q,
    ReferenceField,
    SequenceField,
    StringField,
    connect,
)


class User(Document):
    name = StringField(required=True, unique=True)
    home = PointField()


class Comment(EmbeddedDocument):
    text = StringField()
    votes = IntField(default=0)


class Post(Document):
    meta = {
        "allow_inheritance": True,
        "indexes": ["tags", {"fields": ["$title", "$body"], "weights": {"title": 10, "body": 2}, "cls": False}],
    }
    number = SequenceField()
    title = StringField()
    body = StringField(default="")
    author = ReferenceField(User, reverse_delete_rule=CASCADE)
    tags = ListField(StringField())
    comments = EmbeddedDocumentListField(Comment)
    published = BooleanField(default=False)


class Picture(Post):
    image = FileField()


class Like(Document):
    user = ReferenceField(User)
    of = GenericReferenceField()


def write() -> None:
    ann = User(name="ann", home=[13.4, 52.5]).save()
    bob = User(name="bob", home=[2.35, 48.85]).save()
    Post(title="Sharding", body="chunks move", author=ann, tags=["db", "shards"]).save()
    Post(title="Cooking", body="shards of glass", author=bob, tags=["food"]).save()
    picture = Picture(title="A picture", author=ann, tags=["db"])
    picture.image.put(b"pixels" * 100000, content_type="image/png", filename="p.png")
    picture.save()
    Like(user=bob, of=picture).save()
    try:
        User(name="ann").save()
    except NotUniqueError:
        pass
    else:
        raise AssertionError("two users of one name")


def read() -> None:
    assert [post.number for post in Post.objects.order_by("number")] == [1, 2, 3]
    assert Post.objects.first().author.name == "ann"
    assert [type(post).__name__ for post in Post.objects(tags="db").order_by("number")] == ["Post", "Picture"]
    assert Picture.objects.get().image.read() == b"pixels" * 100000
    assert Like.objects.get().of.title == "A picture"
    found = Post.objects.search_text("shards").order_by("$text_score")
    assert [post.title for post in found] == ["Sharding", "Cooking"]
    near = User.objects(home__near=[13, 52], home__max_distance=1000000)
    assert [user.name for user in near] == ["ann", "bob"]
    assert Post.objects(Q(tags="food") | Q(title__istartswith="a pic")).count() == 2
    assert Post.objects.item_frequencies("tags", normalize=False) == {"db": 2, "shards": 1, "food": 1}
    assert Post.objects.item_frequencies("tags", map_reduce=True) == {"db": 2, "shards": 1, "food": 1}
    counted = Post.objects.map_reduce(
        "function() { this.tags.forEach(tag => emit(tag, 1)); }", "function(key, values) { return Array.sum(values); }",
        "inline",
    )  # fmt: skip
    assert {result.key: result.value for result in counted} == {"db": 2, "shards": 1, "food": 1}
    lookup = Post.objects.aggregate(
        [{"$unwind": "$tags"}, {"$lookup": {"from": "user", "localField": "author", "foreignField": "_id", "as": "a"}},
         {"$group": {"_id": {"$first": "$a.name"}, "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]
    )  # fmt: skip
    assert list(lookup) == [{"_id": "ann", "n": 3}, {"_id": "bob", "n": 1}]


def change() -> None:
    post = Post.objects(title="Sharding").modify(push__comments=Comment(text="first"), inc__number=100, new=True)
    assert (post.number, post.comments[0].text) == (101, "first")
    Post.objects(comments__text="first").update(inc__comments__S__votes=2, add_to_set__tags=["db", "new"])
    post.reload()
    assert (post.comments[0].votes, post.tags) == (2, ["db", "shards", "new"])
    post.comments.filter(text="first").update(votes=7)
    post.save()
    assert Post.objects(comments__match={"votes": 7}).count() == 1
    upserted = Post.objects(title="News").update_one(set__body="none", set_on_insert__published=True, upsert=True)
    assert upserted == 1
    User.objects.get(name="ann").delete()
    assert [post.title for post in Post.objects(author__exists=True)] == ["Cooking"]


database = connect("mongoengine_blog", host=sys.argv[1])
database.drop_database("mongoengine_blog")
write()
read()
change()
database.drop_database("mongoengine_blog")
