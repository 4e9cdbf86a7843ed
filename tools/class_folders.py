"""Folders of class folders from a git repository of pictures: `python -m tools.class_folders GIT OUT`.

The sets of `autocl bench world` that lie in public repositories (see docs/measure.md) become what the command
looks for: OUT/CLASS/NAME.jpg, a few pictures of each class, their shorter side at most 256 pixels. Parts are
taken in the order they are named, so that a class has pictures of "train" only where "test" has too few.
"""

import argparse
import io
import subprocess
from collections import defaultdict
from pathlib import Path, PurePosixPath

from PIL import Image, ImageOps

from autocl.data.folder import SUFFIXES


def by_class(git: Path, parts: list[str], levels: int) -> dict[str, list[tuple[PurePosixPath, str]]]:
    """Path and object of each class's pictures in the repository; a class is the last `levels` folders."""
    command = ["git", "-C", str(git), "ls-tree", "-r", "-z", "HEAD"]
    lines = subprocess.run(command, check=True, capture_output=True).stdout.decode().split("\0")
    told = (line.partition("\t") for line in lines if line)
    listed = sorted((name, facts.split()[2]) for facts, _, name in told)
    found = defaultdict(list)
    for part in parts:
        for name, blob in listed:
            path = PurePosixPath(name)
            if name.startswith(part) and path.suffix.lower() in SUFFIXES:
                found["-".join(path.parts[:-1][-levels:])].append((path, blob))
    return found


def main() -> None:
    """Take the pictures out of the repository, class by class."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("git", type=Path, help="a git directory, with or without work tree")
    parser.add_argument("out", type=Path)
    parser.add_argument("--parts", nargs="+", default=["test/", "train/"], help="folders in the repository")
    parser.add_argument("--per-class", type=int, default=40)
    parser.add_argument("--levels", type=int, default=1, help="folders that together name a class")
    parser.add_argument(
        "--spread", action="store_true", help="evenly spaced pictures: neighbours may be frames of a film"
    )
    parser.add_argument("--pixels", type=int, default=256)
    args = parser.parse_args()
    with subprocess.Popen(
        ["git", "-C", str(args.git), "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as git:
        assert git.stdin is not None
        assert git.stdout is not None
        for label, pictures in by_class(args.git, args.parts, args.levels).items():
            step = max(1, len(pictures) // args.per_class) if args.spread else 1
            folder = args.out / label
            folder.mkdir(parents=True, exist_ok=True)
            left = args.per_class
            for path, blob in pictures[::step]:
                if not left:
                    break
                git.stdin.write(f"{blob}\n".encode())
                git.stdin.flush()
                reply = git.stdout.readline().split()
                if reply[-1] == b"missing":  # a snapshot may lack its largest files
                    continue
                picture = Image.open(io.BytesIO(git.stdout.read(int(reply[-1]) + 1)))
                picture.draft("RGB", (args.pixels, args.pixels))
                shorter = min(picture.size)
                if shorter > args.pixels:
                    picture = ImageOps.scale(picture.convert("RGB"), args.pixels / shorter)
                picture.convert("RGB").save(folder / f"{path.parts[0]}-{path.stem}.jpg", quality=92)
                left -= 1


if __name__ == "__main__":
    main()
