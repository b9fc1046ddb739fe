package tailsource

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/sources/tailsource/formats"
)

const (
	alike      = 1 << 10 // bytes of the beginning by which files are told apart
	remembered = 16      // files whose contents are remembered after they were read
)

// TestTheSameBannerInEveryFile: what a file begins with does not make it a copy.
func TestTheSameBannerInEveryFile(t *testing.T) {
	for _, length := range []int{1, 65, 5000} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, formats.JSON)
			banner := "-" + strings.Repeat("=", length) + "\n"
			b.write(banner)
			b.start()
			b.awaitSeen()
			b.await("a position", func() bool { _, err := os.Stat(statePath(b.env.StateDir).String()); return err == nil })
			b.stop()
			var want []string
			for n := range 4 {
				b.rotate(9)
				more := records(fmt.Sprint(n), 3)
				b.write(banner + lines(more...))
				want = append(want, more...)
			}
			b.start()
			b.wantStored(want)
			for n := range 4 {
				b.rotate(9)
				more := records(fmt.Sprint("up", n), 3)
				b.write(banner + lines(more...))
				want = append(want, more...)
			}
			b.wantStored(want)
		})
	}
}

// TestLateLinesOfAnOlderFile: what is known of a file is not that of another once older
// ones are forgotten.
func TestLateLinesOfAnOlderFile(t *testing.T) {
	t.Parallel()
	b := newBench(t, formats.JSON)
	b.start()
	var want []string
	old := time.Now().Add(-time.Hour)
	for n := range remembered + 3 {
		more := records(fmt.Sprint(n), 3)
		b.write(lines(more...))
		want = append(want, more...)
		b.wantStored(want)
		name := fmt.Sprintf("%s.%d", b.path, 200-n)
		if err := os.Rename(b.path, name); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, old, old); err != nil {
			t.Fatal(err)
		}
	}
	b.write("{\"held\":1}\n")
	want = append(want, `{"held":1}`)
	b.wantStored(want)
	for n := range 3 {
		appendTo(t, fmt.Sprintf("%s.%d", b.path, 200-remembered-n), fmt.Sprintf("{\"late\":%d}\n", n))
		want = append(want, fmt.Sprintf(`{"late":%d}`, n))
	}
	b.rotate(99)
	b.write("{\"last\":1}\n")
	b.wantStored(append(want, `{"last":1}`))
}
