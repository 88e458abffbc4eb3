# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the test suite of mpi4py and writes the outcome of each test to a file for each rank.

    suite.py DIR OUT [OPTION...]

DIR is the unpacked source package of mpi4py, OUT an existing directory, the options are those of its `test/main.py`.
The file `OUT/RANK` has the lines

    library PATH        a libpmix that this process has loaded, once for each
    start TEST          the test begins
    OUTCOME TEST        it has ended: ok, skip or fail
    end COUNT           all tests have ended; without this line the process was lost
"""
import os
import sys
import unittest

DIR, OUT = sys.argv[1:3]

# The file of this process, open from its first line on.
lines = None


def write(*words):
    """Writes a line at once, so that a process that is lost later has said it."""
    global lines
    if lines is None:
        # Not before: the options of the suite decide how MPI is initialized.
        from mpi4py import MPI

        lines = open(os.path.join(OUT, str(MPI.COMM_WORLD.rank)), "w", buffering=1)
    print(*words, file=lines)


def loaded_libraries():
    """Returns the paths of each libpmix in the memory of this process."""
    with open("/proc/self/maps") as maps:
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if "libpmix.so" in line}
    return sorted(paths)


class Result(unittest.TextTestResult):
    """A result that writes down each outcome."""

    def startTestRun(self):
        super().startTestRun()
        self.outcome = "ok"

    def startTest(self, test):
        self.outcome = "ok"
        write("start", test.id())
        super().startTest(test)

    def addFailure(self, test, error):
        self.outcome = "fail"
        super().addFailure(test, error)

    def addError(self, test, error):
        self.outcome = "fail"
        super().addError(test, error)
        if not isinstance(test, unittest.TestCase):
            # The setup of a class or module failed: no test of it is started.
            write("fail", test.id())

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.outcome = "fail"
        super().addSubTest(test, subtest, error)

    def addSkip(self, test, reason):
        self.outcome = "skip"
        super().addSkip(test, reason)

    def stopTest(self, test):
        write(self.outcome, test.id())
        super().stopTest(test)

    def stopTestRun(self):
        for path in loaded_libraries():
            write("library", path)
        write("end", self.testsRun)
        super().stopTestRun()


sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(DIR, "test"))
unittest.TextTestRunner.resultclass = Result
import main  # noqa: E402

sys.argv = ["suite.py", "--no-builddir", "--quiet", *sys.argv[3:]]
main.main(module=None)
