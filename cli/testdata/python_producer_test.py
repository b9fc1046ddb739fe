"""Tries docket_producer with a docket at the address that is given."""
import os
import sys
import threading
import time
import unittest

from docket_producer import Producer, Refused

ADDRESS = sys.argv.pop()


class Test(unittest.TestCase):
    def test_bad_line_stops_nothing(self):
        refused = []
        with Producer(ADDRESS, name="test", on_refused=refused.append) as producer:
            producer.send({"n": 1})
            producer.send(b"not json")
            producer.send({"n": 3})
            self.assertTrue(producer.flush(60))
        self.assertEqual([(r.number, r.reason, r.line) for r in refused], [(2, "InvalidJSON", b"not json\n")])
        self.assertTrue(refused[0].detail)

    def test_callback_that_fails(self):
        def fail(_: Refused) -> None:
            raise RuntimeError("callback")

        with Producer("unix:///nowhere", on_error=fail) as producer:
            time.sleep(0.2)
            self.assertEqual(producer.close(0), 0)

    def test_what_can_never_be_sent(self):
        producer = Producer(ADDRESS, max_bytes=1000)
        for record in (b"", b" \r\n", b"{}\n{}", {"n": float("nan")}, {"docket": {"version": 1}}, b"x" * 1000):
            with self.subTest(record=record), self.assertRaises(ValueError):
                producer.send(record)
        for record in ({"n": object()}, '{"n": 1}', None, [1]):
            with self.subTest(record=record), self.assertRaises(TypeError):
                producer.send(record)
        producer.send({"n": "last"})
        self.assertEqual(producer.close(60), 0)
        with self.assertRaises(ValueError):
            producer.send({"n": "too late"})

    def test_bound_and_close_while_away(self):
        errors = []
        producer = Producer("unix:///nowhere", max_bytes=1000, on_error=errors.append)
        with self.assertRaises(TimeoutError):
            for _ in range(1000):
                producer.send({"n": 1}, timeout=0)
        self.assertFalse(producer.flush(0.01))
        waiting = threading.Thread(target=lambda: self.assertRaises(ValueError, producer.send, {"n": 2}))
        waiting.start()
        began = time.monotonic()
        self.assertEqual(producer.close(0.1), 9)
        waiting.join(10)
        self.assertFalse(waiting.is_alive())
        self.assertLess(time.monotonic() - began, 5)
        self.assertTrue(errors)

    def test_address(self):
        for address in ("/run/docket.sock", "unix://docket.sock", "tcp://host", "tcp://:7443", "tcp://host:x", "http://host:1"):
            with self.subTest(address=address), self.assertRaises(ValueError):
                Producer(address)

    def test_name(self):
        for name in ("my engine", "n" * 92):
            with self.subTest(name=name), self.assertRaises(ValueError):
                Producer(ADDRESS, name=name)
        with Producer(ADDRESS, name="n" * 91) as producer:
            producer.send({"n": "name"})

    def test_error_names_the_address(self):
        errors = []
        with Producer("unix:///nowhere", on_error=errors.append):
            time.sleep(0.2)
        self.assertEqual(
            str(errors[0]), "unix:///nowhere: No such file or directory: check that docket runs there: trying again"
        )

    def test_fork(self):
        producer = Producer(ADDRESS)
        child = os.fork()
        if not child:
            try:
                producer.send({"n": "child"})
            except RuntimeError:
                os._exit(7)
            os._exit(0)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
        producer.send({"n": "parent"})
        self.assertEqual(producer.close(60), 0)


unittest.main()
