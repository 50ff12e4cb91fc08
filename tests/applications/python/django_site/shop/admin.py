from django.contrib import admin

from .models import Maker, Product


@admin.register(Product)
class ProductAdmin(admin.ModelAdmin):
    list_display = ("name", "price", "maker")
    list_filter = ("maker",)
    search_fields = ("name", "maker__name")
    date_hierarchy = "added"
    fields = ("name", "price", "maker")


admin.site.register(Maker)
