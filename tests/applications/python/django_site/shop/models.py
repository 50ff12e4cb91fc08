from django.db import models
from django_mongodb_backend.fields import ArrayField, EmbeddedModelField
from django_mongodb_backend.managers import MongoManager
from django_mongodb_backend.models import EmbeddedModel


class Maker(models.Model):
    name = models.CharField(max_length=50, unique=True)

    def __str__(self) -> str:
        return self.name


class Size(EmbeddedModel):
    width = models.IntegerField()
    height = models.IntegerField()


class Tag(models.Model):
    word = models.CharField(max_length=20)

    def __str__(self) -> str:
        return self.word


class Product(models.Model):
    name = models.CharField(max_length=50, db_index=True)
    price = models.DecimalField(max_digits=8, decimal_places=2)
    stock = models.IntegerField(default=10)
    maker = models.ForeignKey(Maker, on_delete=models.CASCADE, related_name="products")
    tags = models.ManyToManyField(Tag)
    words = ArrayField(models.CharField(max_length=20), default=list)
    size = EmbeddedModelField(Size, null=True)
    added = models.DateTimeField(auto_now_add=True)

    objects = MongoManager()

    class Meta:
        constraints = (models.UniqueConstraint(fields=["name", "maker"], name="one_of_a_name"),)

    def __str__(self) -> str:
        return self.name
