"""How often is the verdict right? Every scenario drawn fifty times, as Markdown tables.

./dev gauntlet                                # all families, 50 draws
./dev gauntlet tables clusters --draws 10
./dev gauntlet hmm --name shuffled --reasons  # one scenario, with the reasons that were given
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from latentfit.core.registry import FAMILIES
from tests.system.gauntlet.scenario import Outcome, Scenario, judge, scenarios_of


def outcome_of(task: tuple[str, bool, int, int]) -> Outcome:
    """One draw; a scenario is named by its place, since functions do not travel between processes."""
    family, independent, at, seed = task
    return judge(scenarios_of(family, independent=independent)[at], seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", help="all by default")
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--name", default="", help="only scenarios whose name holds this")
    parser.add_argument("--reasons", action="store_true", help="print the failed checks and how often each did")
    asked = parser.parse_args()
    families = asked.families or [family.name for family in FAMILIES]
    totals: list[tuple[str, bool, bool, int, int]] = []
    with ProcessPoolExecutor(asked.jobs) as pool:
        for family in families:
            print(f"\n## {family}\n\n| scenario | author | expected | right | verdicts |\n|---|---|---|---|---|")
            for independent in (False, True):
                for at, scenario in enumerate(scenarios_of(family, independent=independent)):
                    if asked.name not in scenario.name:
                        continue
                    seeds = range(asked.first, asked.first + asked.draws)
                    outcomes = list(pool.map(outcome_of, [(family, independent, at, seed) for seed in seeds]))
                    right = sum(outcome.right for outcome in outcomes)
                    totals.append((family, independent, scenario.sound, right, len(outcomes)))
                    print(row_of(scenario, independent, outcomes), flush=True)
                    if asked.reasons:
                        given = Counter(reason for outcome in outcomes for reason in outcome.reasons)
                        for reason, times in given.most_common(8):
                            print(f"    {times} x {reason}")
    print(
        "\n## In all\n\n| family | author | sound: `ok` | unsound: flagged with the right reason |\n|---|---|---|---|"
    )
    for family in families:
        for independent in (False, True):
            proportions = [share_of(totals, family, independent, sound) for sound in (True, False)]
            if any(proportions):
                print(f"| {family} | {author(independent)} | {proportions[0] or '–'} | {proportions[1] or '–'} |")


def author(independent: bool) -> str:
    """Who wrote a scenario, as the tables say it."""
    return "independent" if independent else "with the checks"


def row_of(scenario: Scenario, independent: bool, outcomes: list[Outcome]) -> str:
    """A scenario's row."""
    verdicts = Counter(outcome.verdict for outcome in outcomes)
    counted = ", ".join(f"{verdict} {count}" for verdict, count in verdicts.most_common())
    right = sum(outcome.right for outcome in outcomes)
    expected = " or ".join(scenario.expected)
    return f"| {scenario.name} | {author(independent)} | {expected} | {right} of {len(outcomes)} | {counted} |"


def share_of(totals: list[tuple[str, bool, bool, int, int]], family: str, independent: bool, sound: bool) -> str:
    """Right verdicts among the draws of a family's sound or unsound scenarios."""
    chosen = [total[3:] for total in totals if total[:3] == (family, independent, sound)]
    right, draws = (sum(part) for part in zip(*chosen, strict=True)) if chosen else (0, 0)
    return f"{right} of {draws} ({right / draws:.1%})" if draws else ""


if __name__ == "__main__":
    main()
