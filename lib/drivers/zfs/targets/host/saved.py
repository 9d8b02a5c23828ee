"""The saved configuration of targets: how one volume's part of it is changed, and nothing else."""


def pretty(value):
    """JSON as rtslib (root.py, save_to_file) and nvmetcli (nvme.py, save_to_file) write it."""
    return json.dumps(value, sort_keys=True, indent=2)


DECODER = json.JSONDecoder()


def after_blanks(body, at):
    """The place of the next character that is no blank."""
    while body[at] in " \t\r\n":
        at += 1
    return at


def next_value(body, at):
    """The place of the next value of a list or object, or of its end, behind a value that ends at `at`."""
    at = after_blanks(body, at)
    return after_blanks(body, at + 1) if body[at] == "," else at


def elements(body, at):
    """The values of the list that begins at `at`, each with its text, and the place behind the list."""
    found = []
    at = after_blanks(body, at + 1)
    while body[at] != "]":
        value, end = DECODER.raw_decode(body, at)
        found.append((value, body[at:end]))
        at = next_value(body, end)
    return found, at + 1


def list_text(found, change):
    """A list of the saved object after its change; None if that changes nothing. What `change` returns as it was keeps its text."""
    texts = {id(value): piece for value, piece in found}
    after = change([value for value, _ in found])
    if [id(each) for each in after] == [id(value) for value, _ in found]:
        return None
    pieces = [texts.get(id(each)) or pretty(each).replace("\n", "\n    ") for each in after]
    return "[\n    %s\n  ]" % ",\n    ".join(pieces) if pieces else "[]"


def with_lists(body, changes):
    """The text of an object of JSON with some of its lists changed, by their names: each change returns the new list."""
    pieces, copied, seen = [], 0, set()
    at = after_blanks(body, after_blanks(body, 0) + 1)
    while body[at] != "}":
        key, at = DECODER.raw_decode(body, at)
        at = after_blanks(body, after_blanks(body, at) + 1)
        if key not in changes:
            end = DECODER.raw_decode(body, at)[1]
        elif body[at] != "[" or key in seen:
            raise ValueError("%s is not one list" % key)
        else:
            seen.add(key)
            found, end = elements(body, at)
            new = list_text(found, changes[key])
            if new is not None:
                pieces += [body[copied:at], new]
                copied = end
        at = next_value(body, end)
    missing = [name for name in changes if name not in seen]
    if missing:
        return with_lists(pretty(dict(json.loads(body), **{name: [] for name in missing})) + "\n", changes)
    return "".join([*pieces, body[copied:]])


class SavedFile:
    """The file from which a host restores its targets when it starts. Changes of it leave everything else as it is."""

    def __init__(self, path, empty, backups=False):
        # HA setups have a link there.
        self.path = os.path.realpath(path)
        self.empty = empty
        self.backups = backups
        self.last = None

    def read(self):
        """What is saved, or how it begins. Refuses what is no object of JSON."""
        return self._read()[1]

    def _read(self):
        """The version of the file, what it holds, and its text."""
        if self.last is None or self.last[0] is None or self.last[0] != self._version():
            self.last = self._read_now()
        return self.last

    def _read_now(self):
        try:
            with open(self.path, encoding="utf-8") as file:
                info = os.fstat(file.fileno())
                body = file.read()
        except FileNotFoundError:
            return None, self.empty, pretty(self.empty) + "\n"
        except (OSError, ValueError) as error:
            raise Refused("saved", path=self.path, why=str(error)) from None
        try:
            config = json.loads(body)
        except ValueError as error:
            raise Refused("saved", path=self.path, why=str(error)) from None
        if not isinstance(config, dict):
            raise Refused("saved", path=self.path, why="it is not a JSON object")
        return (info.st_ino, info.st_mtime_ns, info.st_size), config, body

    def _version(self):
        try:
            info = os.stat(self.path)
        except FileNotFoundError:
            return None
        return info.st_ino, info.st_mtime_ns, info.st_size

    def change(self, changes):
        """Changes lists of it by their names. What somebody else saves meanwhile, who may not know the lock, is read again."""
        for _ in range(5):
            version, _, body = self._read()
            try:
                new = with_lists(body, changes)
            except (ValueError, TypeError, AttributeError) as error:
                raise Refused("saved", path=self.path, why=str(error)) from None
            if new == body and version is not None:
                return
            if self._replaced(version, body, new):
                return
        raise Refused("saved", path=self.path, why="somebody else writes it all the time")

    def _replaced(self, version, body, new):
        temporary = self.path + ".csimux"
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)
        try:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "w", encoding="utf-8") as out:
                out.write(new)
                out.flush()
                os.fsync(out.fileno())
            if self._version() != version:
                os.remove(temporary)
                return False
            if self.backups and version is not None:
                self._back_up(body)
            os.rename(temporary, self.path)
            place = os.open(os.path.dirname(self.path), os.O_RDONLY)
            os.fsync(place)
            os.close(place)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.remove(temporary)
            raise Refused("saved", path=self.path, why=os.strerror(error.errno or errno.EIO)) from None
        return True

    def _back_up(self, body):
        """The last ten are kept, as targetcli does (ui_root.py, _save_backups). Without one, the change goes on, as there."""
        import zlib

        place = os.path.join(os.path.dirname(self.path), "backup")
        packer = zlib.compressobj(1, zlib.DEFLATED, 31)
        with contextlib.suppress(OSError):
            folder(place)
            name = time.strftime("saveconfig-%Y%m%d-%H:%M:%S-json.gz")
            file = os.open(os.path.join(place, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(file, "wb") as out:
                out.write(packer.compress(body.encode()) + packer.flush())
            for old in [each for each in names(place) if each.startswith("saveconfig-")][:-10]:
                os.remove(os.path.join(place, old))


def put(all_, new, is_old):
    """The list with `new` in the place of what it replaces, or at its end."""
    place = next((n for n, each in enumerate(all_) if is_old(each)), len(all_))
    if place < len(all_) and all_[place] == new:
        return all_
    rest = [each for each in all_ if not is_old(each)]
    return rest[:place] + [new] + rest[place:]
