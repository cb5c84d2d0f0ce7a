"""The processes of a load: instances, servers that sell seats, a database.

Each process ends with this one, also when this one is killed.
"""
import os
import pathlib
import select
import shutil
import signal
import socket
import sqlite3
import subprocess
import time


def start(command, death="KILL", **more):
    """The child is the command itself: setpriv executes it."""
    return subprocess.Popen(["setpriv", "--pdeathsig", death, *command],
                            stdin=subprocess.DEVNULL, **more)


def wait_until(happened, message, seconds=30):
    end = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > end:
            raise RuntimeError(message)
        time.sleep(0.01)


class Port:
    """A port of 127.0.0.1 that stays ours: bound without listening, for a server to share."""

    def __init__(self):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", 0))
        self.number = self.socket.getsockname()[1]


class Instance:
    def __init__(self, binary, folder, name):
        self.port = Port()
        self.folder = folder / name
        self.folder.mkdir()
        self.command = [binary, "--port", str(self.port.number), "--bind", "127.0.0.1",
                        "--dir", str(self.folder), "--save", "", "--appendonly", "no"]
        self.start()

    @property
    def address(self):
        return f"127.0.0.1:{self.port.number}"

    def start(self):
        self.log = open(self.folder / "log", "w", encoding="utf-8")
        self.process = start(self.command, stdout=self.log, stderr=self.log)
        ready = "Ready to accept connections"
        wait_until(lambda: ready in (self.folder / "log").read_text(encoding="utf-8"),
                   f"the instance at {self.address} does not start")

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.log.close()

    def age(self):
        """In seconds."""
        with socket.create_connection(("127.0.0.1", self.port.number), timeout=10) as s:
            s.sendall(b"INFO server\r\n")
            lines = s.makefile("rb")
            size = int(lines.readline()[1:])
            told = dict(line.split(":", 1) for line in lines.read(size).decode().splitlines()
                        if ":" in line)
        return int(told["uptime_in_seconds"])

    def locks(self):
        """The keys of the seats. The counters of their fences stay, and have other names."""
        with socket.create_connection(("127.0.0.1", self.port.number), timeout=10) as s:
            s.sendall(b"KEYS seat:*\r\n")
            lines = s.makefile("rb")
            count = int(lines.readline()[1:])
            return [lines.readline() and lines.readline().decode().strip()
                    for _ in range(count)]


class Server:
    """A booking server on a port that it chose."""

    def __init__(self, binary, instances, database, options):
        self.process = start([binary, "--listen", "127.0.0.1:0", "--database", database,
                              "--instances", ",".join(i.address for i in instances), *options],
                             stdout=subprocess.PIPE, text=True)
        readable, _, _ = select.select([self.process.stdout], [], [], 30)
        line = self.process.stdout.readline() if readable else ""
        if not line.startswith("booking listens on "):
            raise RuntimeError(f"the server does not start: {line!r}")
        self.url = "http://" + line.split()[-1]

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def status(self):
        """After its drain."""
        return self.process.wait(timeout=60)

    def kill(self):
        self.process.kill()
        self.process.wait()


class Sqlite:
    name = "SQLite"

    def __init__(self, folder):
        self.file = folder / "booking.db"
        self.url = f"sqlite:{self.file}"

    def query(self, sql):
        with sqlite3.connect(self.file) as connection:
            return connection.execute(sql).fetchall()

    def kill(self):
        pass


class Postgres:
    """PostgreSQL refuses to run as root, so it then runs as the user nobody."""
    name = "PostgreSQL"

    def __init__(self, folder):
        found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        initdb = str(found[-1]) if found else shutil.which("initdb")
        if not initdb:
            raise RuntimeError("PostgreSQL is not installed (tools/setup --checks)")
        self.programs = pathlib.Path(initdb).parent
        data = folder / "data"
        data.mkdir()
        folder.chmod(0o711)
        self.user = []
        if os.geteuid() == 0:
            shutil.chown(data, "nobody", "nogroup")
            self.user = ["--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]
        # Loopback only, for the time of a load.
        subprocess.run(["setpriv", *self.user, initdb, "-D", str(data), "-U", "booking", "-A",
                        "trust", "--locale=C", "-E", "UTF8"],
                       check=True, stdout=subprocess.DEVNULL)
        port = Port()
        self.port = port
        self.process = start([*self.user, str(self.programs / "postgres"), "-D", str(data), "-p",
                              str(port.number), "-h", "127.0.0.1",
                              "-c", "unix_socket_directories="],
                             death="QUIT", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        state = data / "postmaster.pid"
        wait_until(lambda: state.exists() and "\nready" in state.read_text(encoding="utf-8"),
                   "PostgreSQL does not start")
        self.url = f"postgresql://booking@127.0.0.1:{port.number}/postgres"

    def query(self, sql):
        said = subprocess.run([self.programs / "psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-c", sql,
                               self.url], check=True, capture_output=True, text=True).stdout
        return [tuple(int(field) if field.lstrip("-").isdigit() else field
                      for field in line.split("|")) for line in said.splitlines()]

    def kill(self):
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()
