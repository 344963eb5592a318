#!/usr/bin/env bash
# Next-fit against best-fit in OCaml, as curves: compile the churn program, run both experiments, write reports to
# build/ocaml. An unfinished run is gone on with; --again throws the stores away first; --record copies the reports
# to lab/results.
set -euo pipefail
cd "$(dirname "$0")/../.."
again=""; record=""
for option in "$@"; do
  case "$option" in
    --again) again=yes ;;
    --record) record=yes ;;
    *) echo "ocaml-curves: unknown option $option; known: --again --record" >&2; exit 2 ;;
  esac
done

if ! command -v ocamlopt >/dev/null; then
  install="apt-get install -y --no-install-recommends ocaml-nox"
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "ocaml-curves: ocamlopt is missing; run as root: $install" >&2
    exit 2
  fi
  { apt-get update -qq && $install; } >&2
fi
case "$(ocamlopt -version)" in
  4.1[0-4].*) ;;
  *) echo "ocaml-curves: OCaml $(ocamlopt -version) has no choice of allocation policies; 4.10 to 4.14 do" >&2; exit 2 ;;
esac

lab="$(scripts/lab/setup.sh)"
out="$PWD/build/ocaml"
mkdir -p "$out"
cp workloads/ocaml/churn.ml "$out/"
(cd "$out" && ocamlopt -O3 churn.ml -o churn 2>/dev/null)  # -O3 matters to flambda only; others say so and go on
for name in policies fixed-increment; do
  store="$out/$name.ashlar"
  [ -n "$again" ] && rm -f "$store"
  if [ -f "$store" ]; then
    "$lab" compare --resume "$store" --form html,md,csv,json,svg,png
  else
    OCAML_BUILD="$out" "$lab" compare --experiment "workloads/ocaml/$name.toml" --store "$store" --form html,md,csv,json,svg,png
  fi
  if [ -n "$record" ]; then
    mkdir -p lab/results
    for form in html md json; do cp "$out/$name.$form" "lab/results/ocaml-$name.$form"; done
    cp "$out/$name-curves-churn.svg" "lab/results/ocaml-$name.svg"
  fi
done
echo "reports: build/ocaml/policies.html build/ocaml/fixed-increment.html"
