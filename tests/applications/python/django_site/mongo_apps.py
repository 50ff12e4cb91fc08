"""Django's own applications with keys that are ObjectIds."""

from django.contrib.admin.apps import AdminConfig
from django.contrib.auth.apps import AuthConfig
from django.contrib.contenttypes.apps import ContentTypesConfig

OBJECT_IDS = "django_mongodb_backend.fields.ObjectIdAutoField"


class MongoAdminConfig(AdminConfig):
    default_auto_field = OBJECT_IDS


class MongoAuthConfig(AuthConfig):
    default_auto_field = OBJECT_IDS


class MongoContentTypesConfig(ContentTypesConfig):
    default_auto_field = OBJECT_IDS
