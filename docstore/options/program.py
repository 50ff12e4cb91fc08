"""Executables with options of these groups: the command line, and the configuration file, which it overrides."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import yaml

import docstore
from docstore.options.build import build_options
from docstore.options.groups import NO_UNIX_SOCKETS, Group, Setting
from docstore.options.unsupported import UNSUPPORTED
from docstore.options.values import EMULATED, VERSIONS, Options

_TRUE_ANYWAY = (
    ("systemLog.destination", "file"),
    ("security.authorization", "disabled"),
    ("replication.enableMajorityReadConcern", True),
)
"""Settings that a configuration file may contain because they are always true here."""


def _spelled_out(argument: str) -> str:
    """Return -v, -vv, ... and --verbose without a level as the option with its level; other arguments unchanged."""
    if re.fullmatch("-v+", argument):
        return f"--verbose={argument[1:]}"
    return "--verbose=v" if argument == "--verbose" else argument


class _Program(click.Command):
    """A click command that reads `--config` and reports known but unsupported options."""

    def __init__(self, name: str, settings: tuple[Setting, ...], run: Callable[[Options], None]) -> None:
        self._settings = settings
        config = click.Option(
            ["--config", "-f", "config_file"], type=click.Path(path_type=Path, dir_okay=False), is_eager=True,
            expose_value=False, callback=self._read_config, help="Read options from this YAML file.",
        )  # fmt: skip
        version = click.Option(
            ["--version"], is_flag=True, is_eager=True, expose_value=False, callback=self._show_version,
            help="Say which version this is.",
        )  # fmt: skip
        options = [setting.option() for setting in settings]
        super().__init__(
            name,
            params=[config, version, *options],
            callback=self._call,
            help=run.__doc__,
            context_settings={"help_option_names": ["-h", "--help"]},
        )
        self._run = run

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, [_spelled_out(argument) for argument in args])
        except click.NoSuchOption as error:
            name = error.option_name.lstrip("-")
            reason = UNSUPPORTED.get(name)
            if reason is None:
                raise
            raise click.UsageError(f"--{name} is not supported: {reason}.", ctx) from None

    def _read_config(self, ctx: click.Context, _option: click.Parameter, path: Path | None) -> None:
        if path is None:
            return
        try:
            tree = yaml.safe_load(path.read_text()) or {}
        except OSError as error:
            raise click.UsageError(f"cannot read {path}: {error.strerror}", ctx) from None
        except yaml.YAMLError as error:
            raise click.UsageError(f"{path} is not YAML: {error}", ctx) from None
        by_key = {setting.key: setting.name for setting in self._settings}
        ctx.default_map = {}
        for key, value in _flatten(tree):
            if key == "sharding.clusterRole" and f"sharding.{value}" in by_key:
                key, value = f"sharding.{value}", True
            if (key, value) in _TRUE_ANYWAY:
                continue
            if key == "storage.journal.enabled" and not value:
                raise click.UsageError(f"{path}: {UNSUPPORTED['nojournal']}", ctx)
            if key == "security.authorization" and key in by_key:
                if value != "enabled":
                    raise click.UsageError(f"{path}: {key} is enabled or disabled, not {value}", ctx)
                value = True
            if key == "security.javascriptEnabled" and "security.noscripting" in by_key:
                key, value = "security.noscripting", not value
            if key == "net.unixDomainSocket.enabled" and NO_UNIX_SOCKETS in by_key:
                key, value = NO_UNIX_SOCKETS, not value
            if key not in by_key:
                raise click.UsageError(f"{path}: {key} is not supported", ctx)
            ctx.default_map[by_key[key]] = value

    def _show_version(self, ctx: click.Context, _option: click.Parameter, requested: bool) -> None:
        if requested:
            version = VERSIONS[EMULATED]
            click.echo(f"{'mongos' if self.name == 'mongos' else 'db'} version v{version}")
            click.echo("Build Info: " + json.dumps({"version": version, "docstore": docstore.__version__}, indent=4))
            ctx.exit()

    def _call(self, **values: Any) -> None:
        values_by_key = {
            setting.key: values[setting.name] for setting in self._settings if _was_given(values.get(setting.name))
        }
        try:
            options = build_options(values_by_key)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        self._run(options)


def program(name: str, *groups: Group) -> Callable[[Callable[[Options], None]], click.Command]:
    """Return a decorator that makes a function of `Options` an executable with the options of these groups."""
    settings = tuple(setting for group in groups for setting in group.settings)
    return lambda run: _Program(name, settings, run)


def _was_given(value: Any) -> bool:
    # 0 equals False, but port 0 is a port.
    return value is not None and value is not False and value != ()


def _flatten(tree: Any, prefix: str = "") -> list[tuple[str, Any]]:
    if not isinstance(tree, Mapping):
        raise click.UsageError("a configuration file holds nested names and values")
    pairs: list[tuple[str, Any]] = []
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if key == "setParameter" and isinstance(value, Mapping):
            pairs.append((key, tuple(f"{parameter}={_as_text(setting)}" for parameter, setting in value.items())))
        elif isinstance(value, Mapping):
            pairs += _flatten(value, f"{key}.")
        else:
            pairs.append((key, value))
    return pairs


def _as_text(setting: Any) -> str:
    return str(setting).lower() if isinstance(setting, bool) else str(setting)
