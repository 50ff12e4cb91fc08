"""Settings of a small site whose every application keeps its data in MongoDB."""

import os

SECRET_KEY = "secret"
ALLOWED_HOSTS = ["testserver"]
ROOT_URLCONF = "urls"
USE_TZ = True
DATABASES = {
    "default": {"ENGINE": "django_mongodb_backend", "HOST": os.environ["DJANGO_SITE_URI"], "NAME": "django_site"}
}
DEFAULT_AUTO_FIELD = "django_mongodb_backend.fields.ObjectIdAutoField"
INSTALLED_APPS = [
    "mongo_apps.MongoAdminConfig",
    "mongo_apps.MongoAuthConfig",
    "mongo_apps.MongoContentTypesConfig",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django_mongodb_backend",
    "shop",
]
MIGRATION_MODULES = {"admin": "made.admin", "auth": "made.auth", "contenttypes": "made.contenttypes"}
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
