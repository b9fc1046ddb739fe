package client

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/decision"
)

// closeAway closes c without an exporter.
func closeAway(t *testing.T, c *Client) (left int, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	return c.Close(ctx)
}

// What Close could not send is sent by the next client: each record once, also
// those that the exporter had stored without the client hearing of it, and what
// was lost is told.
func TestSpill(t *testing.T) {
	e := newExporter(t)
	file := filepath.Join(t.TempDir(), "spill")
	config := Config{SpillFile: file, Producer: "engine", MaxBufferedBytes: MinBufferedBytes}
	first := e.client(config)
	for n := 1; n <= 5; n++ {
		if err := first.Log(within(t), record(decision.Deny, n)); err != nil {
			t.Fatal(err)
		}
	}
	e.Hold()
	for n := 6; n <= 10; n++ {
		if err := first.TryLog(record(decision.Deny, n)); err != nil {
			t.Fatal(err)
		}
	}
	e.await("5 pending lines", func() bool { return e.Held() == 5 })
	n := 11
	for first.TryLog(record(decision.Deny, n)) == nil { // the last is lost
		n++
	}
	if left, err := closeAway(t, first); left != 0 || err != nil {
		t.Fatalf("Close: got %d left, %v, want 0 and nil: they are in the file", left, err)
	}
	e.Release() // the exporter has some of the lines that are in the file

	o := &offline{e: e}
	away := o.config()
	away.SpillFile, away.MaxBufferedBytes = file, MinBufferedBytes
	second := startClient(t, away)
	if left, err := closeAway(t, second); left != 0 || err != nil {
		t.Fatalf("Close of a client that met no exporter: got %d, %v", left, err)
	}
	third := e.client(config)
	if err := third.Log(within(t), record(decision.Allow, n+1)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the spill file is there although all of it is stored")
	}
	closeClient(t, third)
	got, lost := sequences(t, e.Lines())
	for i, seq := range got[decision.Deny] {
		if seq != i+1 {
			t.Fatalf("record %d: got number %d, want each once and in order", i+1, seq)
		}
	}
	if len(got[decision.Deny]) != n-1 || len(got[decision.Allow]) != 1 || lost[decision.Deny] != 1 {
		t.Errorf("stored: got %d, %d and %v lost, want %d, 1 and 1 deny", len(got[decision.Deny]), len(got[decision.Allow]), lost, n-1)
	}
}

// A client that dies after it took up the file leaves it to the next, which finds
// that the exporter knows the lines, and more.
func TestSpillOfAClientThatDied(t *testing.T) {
	e := newExporter(t)
	file := filepath.Join(t.TempDir(), "spill")
	const content = `{"docket":{"version":1,"producer":"p","next":3}}` + "\n" + `{"sequence":3}` + "\n" + `{"sequence":4}` + "\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	died := e.sender(SenderConfig{Producer: "p"}) // it had sent 1 to 7
	for n := 1; n <= 7; n++ {
		if err := died.Send(within(t), []byte(`{"sequence":`+string(rune('0'+n))+`}`)); err != nil {
			t.Fatal(err)
		}
	}
	closeAll(t, died)
	c := e.client(Config{SpillFile: file})
	if err := c.LogLine(within(t), []byte(`{"sequence":8}`), ""); err != nil {
		t.Fatal(err)
	}
	closeClient(t, c)
	lines := e.Lines()
	for i, l := range lines {
		if l.Number != uint64(i+1) || l.Text != `{"sequence":`+string(rune('1'+i))+`}` {
			t.Errorf("line %d: got number %d, %s", i+1, l.Number, l.Text)
		}
	}
	checkCount(t, lines, 8)
}

// A file that comes back, as after a power cut or in a client that is killed, gives its
// next client no number that the exporter knows as another line's.
func TestSpillFileThatComesBack(t *testing.T) {
	e := newExporter(t)
	file := filepath.Join(t.TempDir(), "spill")
	const content = `{"docket":{"version":1,"producer":"p","next":3}}` + "\n" + `{"sequence":3}` + "\n" + `{"sequence":4}` + "\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	e.Hold()
	killed := e.client(Config{SpillFile: file})
	if err := killed.TryLogLine([]byte(`{"sequence":5}`), ""); err != nil {
		t.Fatal(err)
	}
	e.await("the lines of the file", func() bool { return e.Held() >= 2 })
	if left, err := closeAway(t, killed); left != 0 || err != nil {
		t.Fatalf("Close: got %d left, %v", left, err)
	}
	e.Release()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	o := &offline{e: e}
	away := o.config()
	away.SpillFile = file
	second := startClient(t, away)
	if err := second.TryLogLine([]byte(`{"sequence":6}`), ""); err != nil {
		t.Fatal(err)
	}
	if left, err := closeAway(t, second); left != 0 || err != nil {
		t.Fatalf("Close of a client that met no exporter: got %d left, %v", left, err)
	}
	third := e.client(Config{SpillFile: file})
	if err := third.LogLine(within(t), []byte(`{"sequence":7}`), ""); err != nil {
		t.Fatal(err)
	}
	closeClient(t, third)
	var got strings.Builder
	for _, l := range e.Lines() {
		got.WriteString(l.Text)
	}
	if want := `{"sequence":3}{"sequence":4}{"sequence":6}{"sequence":7}`; got.String() != want {
		t.Errorf("stored: got %s, want %s", got.String(), want)
	}
}

func TestSpillFileOfAnother(t *testing.T) {
	e := newExporter(t)
	file := filepath.Join(t.TempDir(), "spill")
	c := e.client(Config{SpillFile: file})
	_, err := New(Config{Address: "unix://" + e.path, SpillFile: file})
	if err == nil || !strings.Contains(err.Error(), "in use by another client") {
		t.Errorf("New: got %v, want that the file is in use", err)
	}
	closeClient(t, c)
	closeClient(t, e.client(Config{SpillFile: file}))
}

// A file that no client has left is kept, under another name.
func TestSpillFileThatIsNone(t *testing.T) {
	const hello = `{"docket":{"version":1,"producer":"p","next":1}}` + "\n"
	for name, content := range map[string]string{
		"no hello":     "{}\n{}\n",
		"cut short":    hello + `{"a":1}` + "\n" + `{"a":`,
		"blank line":   hello + "\n{}\n",
		"two hellos":   hello + hello,
		"no lines":     hello,
		"empty":        "",
		"broken hello": `{"docket":{"version":1,"producer":"p","next":"x"}}` + "\n{}\n",
	} {
		t.Run(name, func(t *testing.T) {
			e := newExporter(t)
			file := filepath.Join(t.TempDir(), "spill")
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			c := e.client(Config{SpillFile: file})
			if err := c.Log(within(t), record(decision.Deny, 1)); err != nil {
				t.Fatal(err)
			}
			closeClient(t, c)
			aside, err := filepath.Glob(file + ".unreadable-*")
			if err != nil || len(aside) != 1 {
				t.Fatalf("set aside: got %v, %v, want one file", aside, err)
			}
			if got, err := os.ReadFile(aside[0]); err != nil || string(got) != content {
				t.Errorf("set aside: got %q, %v, want %q", got, err, content)
			}
			checkCount(t, e.Lines(), 1)
		})
	}
}

func TestSpillFileThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	if _, err := New(Config{Address: "unix:///nobody", SpillFile: dir + "/spill"}); err == nil {
		t.Error("New with a spill file in a directory that is not there: got nil, want an error")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c := startClient(t, Config{Address: "unix://" + dir + "/nobody", SpillFile: dir + "/spill"})
	if err := c.TryLog(record(decision.Deny, 1)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if left, err := closeAway(t, c); left != 1 || err == nil || !strings.Contains(err.Error(), "spill file") {
		t.Errorf("Close: got %d left, %v, want 1 and that the file cannot be written", left, err)
	}
}

// The file stays until the last of its records is stored.
func TestSpillFileStaysUntilAllIsStored(t *testing.T) {
	e := newExporter(t)
	file := filepath.Join(t.TempDir(), "spill")
	const content = `{"docket":{"version":1,"producer":"p","next":1}}` + "\n" + `{"n":1}` + "\n" + `{"n":2}` + "\n" + `{"n":3}` + "\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	e.Hold()
	c := e.client(Config{SpillFile: file})
	e.await("3 pending lines", func() bool { return e.Held() == 3 })
	for n := 1; n <= 3; n++ {
		if got, err := os.ReadFile(file); err != nil || string(got) != content {
			t.Fatalf("with %d of 3 stored: got %q, %v, want the file as it was", n-1, got, err)
		}
		e.Settle(1)
		if n < 3 {
			for c.Stats().Stored < uint64(n) {
				runtime.Gosched()
			}
		}
	}
	closeClient(t, c)
	if _, err := os.Stat(file); err == nil {
		t.Error("the file is there although all of it is stored")
	}
	checkOnce(t, e.Lines(), 3)
}

// What is left of a picked up file is spilled again, under the same numbers.
func TestSpillOfAPartOfASpill(t *testing.T) {
	e := newExporter(t)
	file := filepath.Join(t.TempDir(), "spill")
	const content = `{"docket":{"version":1,"producer":"p","next":1}}` + "\n" + `{"n":1}` + "\n" + `{"n":2}` + "\n" + `{"n":3}` + "\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	e.Hold()
	c := e.client(Config{SpillFile: file})
	e.await("3 pending lines", func() bool { return e.Held() == 3 })
	e.Settle(1)
	for c.Stats().Stored < 1 {
		runtime.Gosched()
	}
	if left, err := closeAway(t, c); left != 0 || err != nil {
		t.Fatalf("Close: got %d, %v", left, err)
	}
	const want = `{"docket":{"version":1,"producer":"p","next":2}}` + "\n" + `{"n":2}` + "\n" + `{"n":3}` + "\n"
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("spilled: got %q, %v, want %q", got, err, want)
	}
	e.Release()
	closeClient(t, e.client(Config{SpillFile: file}))
	checkOnce(t, e.Lines(), 3)
}

// The lines of a spill file are sent under their numbers: under others the exporter
// would take them for those that it has.
func TestSpilledLinesKeepTheirNumbers(t *testing.T) {
	e := newExporter(t)
	before := e.sender(SenderConfig{Producer: "p"})
	send(t, before, 1, 2)
	closeAll(t, before)
	file := filepath.Join(t.TempDir(), "spill")
	const content = `{"docket":{"version":1,"producer":"p","next":3}}` + "\n" + `{"n":3}` + "\n" + `{"n":4}` + "\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	closeClient(t, e.client(Config{SpillFile: file}))
	checkOnce(t, e.Lines(), 4)
}

// TestSpillOfAnotherVersion stays, and its client does not start: the records in it are of
// a client that knows more.
func TestSpillOfAnotherVersion(t *testing.T) {
	for _, version := range []int{0, 2} {
		path := filepath.Join(t.TempDir(), "spill")
		text := fmt.Sprintf(`{"docket":{"version":%d,"producer":"p","next":1}}`+"\n{}\n", version)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := openSpill(path, remains{}, slog.New(slog.DiscardHandler))
		if want := fmt.Sprintf("version %d is not supported", version); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("got %v, want %q and the file", err, want)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("got %q, %v, want the file as it was", got, err)
		}
	}
}
