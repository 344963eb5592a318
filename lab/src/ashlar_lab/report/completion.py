"""Completion of the command line, as a script for bash or zsh, made from what the verbs take."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

SHELLS = ("bash", "zsh")


@dataclass(frozen=True)
class Option:
    """One option of a verb. `values` are what it can be, where they are few and known; `takes` whether it takes a value at all."""

    names: tuple[str, ...]
    help: str
    takes: bool
    values: tuple[str, ...] = ()


def script(shell: str, verbs: dict[str, tuple[str, list[Option]]]) -> str:
    """`verbs` maps each verb to its summary and options."""
    return _bash(verbs) if shell == "bash" else _zsh(verbs)


def _bash(verbs: dict[str, tuple[str, list[Option]]]) -> str:
    lines = ["# Completion of ashlar for bash: eval \"$(ashlar completion bash)\" in ~/.bashrc", "_ashlar() {",
             '  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]} i options',
             "  COMPREPLY=()",
             "  # After -- comes a command of the user's own.",
             "  for ((i = 2; i < COMP_CWORD; i++)); do",
             "    if [[ ${COMP_WORDS[i]} == -- ]]; then",
             '      if ((i == COMP_CWORD - 1)); then mapfile -t COMPREPLY < <(compgen -c -- "$word"); else mapfile -t COMPREPLY < <(compgen -f -- "$word"); fi',
             "      return",
             "    fi",
             "  done",
             "  if ((COMP_CWORD == 1)); then",
             f'    mapfile -t COMPREPLY < <(compgen -W {shlex.quote(" ".join(verbs))} -- "$word")',
             "    return",
             "  fi",
             "  case $verb:$before in"]
    for verb, (_, options) in verbs.items():
        for option in options:
            if option.values:
                patterns = "|".join(f"{verb}:{name}" for name in option.names)
                lines.append(f'    {patterns}) mapfile -t COMPREPLY < <(compgen -W {shlex.quote(" ".join(option.values))} -- "$word"); return ;;')
            elif option.takes:
                patterns = "|".join(f"{verb}:{name}" for name in option.names)
                lines.append(f'    {patterns}) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;')
    lines += ["  esac", "  case $verb in"]
    for verb, (_, options) in verbs.items():
        lines.append(f"    {verb}) options={shlex.quote(' '.join(name for o in options for name in o.names if name.startswith('--')))} ;;")
    lines += ["    *) options= ;;", "  esac",
              '  if [[ $word == -* ]]; then mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word"); else mapfile -t COMPREPLY < <(compgen -f -- "$word"); fi',
              "}", "complete -o filenames -F _ashlar ashlar"]
    return "\n".join(lines) + "\n"


def _zsh(verbs: dict[str, tuple[str, list[Option]]]) -> str:
    lines = ["#compdef ashlar", "# Completion of ashlar for zsh: eval \"$(ashlar completion zsh)\" in ~/.zshrc, after compinit", "_ashlar() {", "  local -a verbs",
             "  verbs=(" + " ".join(shlex.quote(f"{verb}:{_plain(summary)}") for verb, (summary, _) in verbs.items()) + ")",
             "  if ((CURRENT == 2)); then _describe -t verbs verb verbs; return; fi",
             "  case $words[2] in"]
    for verb, (_, options) in verbs.items():
        lines.append(f"    {verb})")
        lines.append("      shift words; ((CURRENT--))")
        lines.append("      _arguments -S \\")
        for option in options:
            group = "'(" + " ".join(option.names) + ")'" if len(option.names) > 1 else ""
            takes = "" if not option.takes else ":value:(" + " ".join(option.values) + ")" if option.values else ":value:_files"
            for name in option.names:
                repeated = "'*'" if option.takes else group
                lines.append(f"        {repeated}{shlex.quote(f'{name}[{_plain(option.help)}]{takes}')} \\")
        lines.append("        '*::command:_normal' ;;" if verb in ("compare", "init", "ci", "mem") else "        '*:file:_files' ;;")
    return "\n".join(lines + ["  esac", "}", "compdef _ashlar ashlar"]) + "\n"


def _plain(text: str) -> str:
    """Text that neither zsh's brackets nor its colons can trip over."""
    return text.partition(". ")[0].replace("[", "(").replace("]", ")").replace(":", " -").replace("\n", " ").strip()
