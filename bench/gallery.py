"""Regenerates the pictures of docs/gallery.md and of the README's first screen from a folder of results.

  ./lab study && python3 bench/gallery.py results/study

Every picture in docs/gallery.md is named after a figure of the report; of a figure with several settings the first is
taken, as on the page. Pictures without a figure in these results are listed and left alone."""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIRST_SCREEN = (1280, 910)  # pixels
BROWSERS = ("chromium", "google-chrome", "chromium-browser")


def written_files(program, results, output):
    """Runs `ridgeline report` and returns the files that it wrote, in the order of the page."""
    lines = subprocess.run([program, "report", results, "-o", output], check=True, text=True,
                           stdout=subprocess.PIPE).stdout.splitlines()
    return [pathlib.Path(line.removeprefix("Report: ")) for line in lines if line.startswith("Report: ")]


def draw_gallery(program, results, folder):
    names = re.findall(r"gallery/([a-z-]+)\.svg", (ROOT / "docs/gallery.md").read_text())
    figures = written_files(program, results, folder / "g.svg")
    missing = []
    for name in names:
        found = [path for path in figures if path.stem == f"g-{name}" or path.stem.startswith(f"g-{name}-")]
        if found:
            (ROOT / "docs/gallery" / f"{name}.svg").write_bytes(found[0].read_bytes())
        else:
            missing.append(name)
    print(f"{len(names) - len(missing)} of {len(names)} pictures of docs/gallery are remade")
    if missing:
        print(f"these results have no {', '.join(missing)}")
    return not missing


def draw_first_screen(program, results, folder):
    page, picture = folder / "report.html", ROOT / "docs/report.png"
    written_files(program, results, page)
    for browser in BROWSERS:
        try:
            subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                            f"--user-data-dir={folder / 'profile'}", f"--screenshot={picture}",
                            "--window-size={},{}".format(*FIRST_SCREEN), page.as_uri()],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            print("docs/report.png is remade")
            return True
        except FileNotFoundError:
            continue
    print("no browser is installed, so docs/report.png stays as it is: apt-get install chromium")
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", help="a folder of results, or a results file")
    parser.add_argument("--program", default=ROOT / "build/release/ridgeline", help="build/release/ridgeline")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        done = draw_gallery(arguments.program, arguments.results, folder)
        done = draw_first_screen(arguments.program, arguments.results, folder) and done
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
