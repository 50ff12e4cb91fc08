"""Django: migrations made and run, models with relations, the admin, `atomic()`, sessions.

The site is copied to a directory of its own, where `makemigrations` writes.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

SITE = Path(tempfile.mkdtemp(prefix="django_site"))
shutil.copytree(Path(__file__).parent / "django_site", SITE, dirs_exist_ok=True)
(SITE / "made").mkdir()
(SITE / "made" / "__init__.py").touch()
os.chdir(SITE)
sys.path.insert(0, str(SITE))
os.environ |= {"DJANGO_SETTINGS_MODULE": "settings", "DJANGO_SITE_URI": sys.argv[1]}

import django  # noqa: E402

django.setup()

from django.contrib.auth.models import Group, User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import IntegrityError, connection, models  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import setup_test_environment  # noqa: E402
from django_mongodb_backend import transaction  # noqa: E402
from shop.models import Maker, Product, Size, Tag  # noqa: E402


def migrate() -> None:
    connection.database.client.drop_database("django_site")
    call_command("makemigrations", "admin", "auth", "contenttypes", "shop", verbosity=0)
    call_command("migrate", verbosity=0)
    (SITE / "shop" / "migrations" / "0002_more.py").write_text(
        "from django.db import migrations, models\n"
        "class Migration(migrations.Migration):\n"
        "    dependencies = [('shop', '0001_initial')]\n"
        "    operations = [migrations.AddField('product', 'seen', models.IntegerField(default=7)),\n"
        "        migrations.AddIndex('product', models.Index(fields=['-price'], name='by_price')),\n"
        "        migrations.RenameField('maker', 'name', 'called'),\n"
        "        migrations.RenameField('maker', 'called', 'name'),\n"
        "        migrations.RemoveField('product', 'seen')]\n"
    )
    call_command("migrate", verbosity=0)
    assert "by_price" in {index["name"] for index in connection.database.shop_product.list_indexes()}
    call_command("migrate", "shop", "0001", verbosity=0)
    assert "by_price" not in {index["name"] for index in connection.database.shop_product.list_indexes()}


def query() -> None:
    acme, other = Maker.objects.bulk_create([Maker(name="acme"), Maker(name="other")])
    size = Size(width=3, height=4)
    cart = Product.objects.create(name="cart", price="19.90", maker=acme, words=["a", "b"], size=size)
    Product.objects.create(name="wheel", price="3.10", maker=acme, stock=2)
    Product.objects.create(name="axle", price="7.00", maker=other)
    cart.tags.add(*Tag.objects.bulk_create([Tag(word="new"), Tag(word="big")]))
    try:
        Product.objects.create(name="cart", price="1", maker=acme)
    except IntegrityError:
        pass
    else:
        raise AssertionError("two products of one name and maker")
    totals = Maker.objects.annotate(n=models.Count("products"), sum=models.Sum("products__price")).order_by("name")
    assert [(maker.n, str(maker.sum)) for maker in totals] == [(2, "23.00"), (1, "7.00")]
    assert Product.objects.filter(models.Q(maker__name="acme") & ~models.Q(name__startswith="wh")).get() == cart
    assert Product.objects.filter(size__width__gt=2, words__contains=["b"], tags__word="big").get() == cart
    assert Product.objects.select_related("maker").order_by("-price").values_list("maker__name", flat=True)[0] == "acme"
    assert [product.tags.count() for product in Product.objects.order_by("name")] == [0, 2, 0]
    assert Product.objects.filter(stock__lt=5).update(stock=models.F("stock") + 5) == 1
    assert Product.objects.aggregate(most=models.Max("stock"), mean=models.Avg("stock")) == {"most": 10, "mean": 9}
    exists = Maker.objects.filter(models.Exists(Product.objects.filter(maker=models.OuterRef("pk"), price__lt=5)))
    assert [maker.name for maker in exists] == ["acme"]
    dearest = Product.objects.filter(maker=models.OuterRef("pk")).order_by("-price").values("name")[:1]
    makers = Maker.objects.order_by("name").annotate(dearest=models.Subquery(dearest))
    assert [maker.dearest for maker in makers] == ["cart", "axle"]
    raw = Product.objects.raw_aggregate([{"$match": {"stock": {"$gt": 8}}}, {"$sort": {"name": 1}}])
    assert [product.name for product in raw] == ["axle", "cart"]
    assert Product.objects.filter(name="cart").explain()


def atomic() -> None:
    try:
        with transaction.atomic():
            Product.objects.filter(name="cart").update(stock=0)
            Maker.objects.create(name="never")
            raise RuntimeError("changed her mind")
    except RuntimeError:
        pass
    after = []
    with transaction.atomic():
        Maker.objects.create(name="always")
        transaction.on_commit(lambda: after.append(Maker.objects.filter(name="always").exists()))
    assert after == [True]
    assert Product.objects.get(name="cart").stock == 10
    assert set(Maker.objects.values_list("name", flat=True)) == {"acme", "other", "always"}


def admin() -> None:
    User.objects.create_superuser("root", "root@example.com", "secret")
    Group.objects.create(name="staff").user_set.add(User.objects.get())
    setup_test_environment()
    client = Client()
    assert client.get("/admin/").status_code == 302
    assert client.login(username="root", password="secret")
    assert b"Products" in client.get("/admin/").content
    acme = Maker.objects.get(name="acme")
    listed = client.get("/admin/shop/product/", {"q": "acme", "maker__id__exact": str(acme.pk), "o": "-2"})
    assert listed.status_code == 200
    assert [product.name for product in listed.context["cl"].result_list] == ["cart", "wheel"]
    added = client.post("/admin/shop/product/add/", {"name": "bell", "price": "1.5", "maker": str(acme.pk)})
    assert added.status_code == 302, added.content
    bell = Product.objects.get(name="bell")
    changed = client.post(
        f"/admin/shop/product/{bell.pk}/change/", {"name": "bell", "price": "2", "maker": str(acme.pk)}
    )
    assert changed.status_code == 302
    assert client.get(f"/admin/shop/product/{bell.pk}/history/").content.count(b"Changed") >= 1
    assert client.post(f"/admin/shop/product/{bell.pk}/delete/", {"post": "yes"}).status_code == 302
    deleted = client.post(
        "/admin/shop/maker/", {"action": "delete_selected", "_selected_action": str(acme.pk), "post": "yes"}
    )
    assert deleted.status_code == 302
    assert [product.name for product in Product.objects.all()] == ["axle"]


try:
    migrate()
    query()
    atomic()
    admin()
    connection.database.client.drop_database("django_site")
    connection.close()
finally:
    shutil.rmtree(SITE)
