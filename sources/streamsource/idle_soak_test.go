//go:build soak

package streamsource

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docket-export/docket/client/clienttest/await"
)

// quiet is a producer whose own side costs this process no memory: its cost is
// that of the exporter.
type quiet int

func dialQuietly(t *testing.T, path string) quiet {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	return quiet(fd)
}

func (q quiet) send(t *testing.T, text string) {
	t.Helper()
	for len(text) > 0 {
		n, err := syscall.Write(int(q), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		text = text[n:]
	}
}

// receive reads until what came ends with the line.
func (q quiet) receive(t *testing.T, line string) {
	t.Helper()
	var got []byte
	for buf := make([]byte, 4096); !strings.HasSuffix(string(got), line+"\n"); {
		n, err := syscall.Read(int(q), buf)
		if n <= 0 {
			t.Fatalf("read: got %q, %v, want %s", got, err, line)
		}
		got = append(got, buf[:n]...)
	}
}

// inUse is the memory of live objects and of stacks.
func inUse() int64 {
	for range 3 { // stacks shrink by half each time
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// TestIdleProducerCosts: at most 16 KiB, whatever it did before it fell silent.
func TestIdleProducerCosts(t *testing.T) {
	const most = 16 << 10
	line := `{"message":"` + strings.Repeat("x", 1000) + "\"}\n"
	for name, test := range map[string]struct {
		acked bool
		lines int
	}{
		"after hello":           {true, 0},
		"after one line":        {true, 1},
		"after a burst":         {true, 300},
		"plain, after one line": {false, 1},
		"plain, after a burst":  {false, 300},
	} {
		t.Run(name, func(t *testing.T) {
			var in forgetful
			c := UnixDefinition.NewConfig().(*UnixConfig)
			c.Path = filepath.Join(t.TempDir(), "s")
			r := startOn(t, &in, 1<<20, c)
			crowd := int64(crowd)
			before := inUse()
			for i := range crowd {
				q := dialQuietly(t, c.Path)
				if test.acked {
					q.send(t, fmt.Sprintf(`{"docket":{"version":1,"producer":"p%d","next":1}}`+"\n", i))
					q.receive(t, `{"docket":{"version":1,"acked":0}}`)
				}
				q.send(t, strings.Repeat(line, test.lines))
				if test.acked && test.lines > 0 {
					q.receive(t, fmt.Sprintf(`{"ack":%d}`, test.lines))
				}
			}
			await.Until(t, "all lines taken", func() bool { return in.lines.Load() == crowd*int64(test.lines) })
			r.awaitConnections(int(crowd))
			each := (inUse() - before) / crowd
			for deadline := time.Now().Add(time.Minute); each > most && time.Now().Before(deadline); {
				each = (inUse() - before) / crowd // some may not be idle yet
			}
			t.Logf("%d bytes each", each)
			if each > most {
				t.Errorf("memory of an idle producer: got %d bytes, want at most %d", each, most)
			}
		})
	}
}
