package tailsource

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docket-export/docket/sources/tailsource/formats"
)

func sample(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "samples", "gatekeeper", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func linesWith(data []byte, part string) (found []string) {
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, part) {
			found = append(found, strings.TrimSuffix(line, "\n"))
		}
	}
	return found
}

// TestSamplesByteForByte: real lines of Gatekeeper arrive as they are, in a file and in
// the framing of a container runtime, among lines that are none.
func TestSamplesByteForByte(t *testing.T) {
	t.Parallel()
	denies := sample(t, "webhook-log-denies.jsonl")
	audit := sample(t, "audit-stderr-one-run.jsonl")
	for name, test := range map[string]struct {
		format formats.Format
		data   []byte
		want   []string
	}{
		"denies":            {formats.GatekeeperDenies, denies, linesWith(denies, `"event_type":"violation"`)},
		"denies framed":     {formats.GatekeeperDenies, frame(denies), linesWith(denies, `"event_type":"violation"`)},
		"denies as JSON":    {formats.JSON, denies, linesWith(denies, "{")},
		"denies framed CRI": {formats.CRI, frame(denies), linesWith(denies, "{")},
		"among text":        {formats.GatekeeperDenies, amongText(denies), linesWith(denies, `"event_type":"violation"`)},
		"audit":             {formats.GatekeeperDenies, audit, linesWith(audit, `"event_type":"violation_audited"`)},
		"audit framed":      {formats.GatekeeperDenies, frame(audit), linesWith(audit, `"event_type":"violation_audited"`)},
	} {
		t.Run(name, func(t *testing.T) {
			if len(test.want) == 0 {
				t.Fatal("got a sample without records")
			}
			b := newBench(t, test.format)
			b.write(string(test.data))
			b.start()
			b.wantStored(test.want)
			if refused := b.refused(); len(refused) > 0 {
				t.Errorf("got refused %q, want none", refused)
			}
		})
	}
}

// frame puts lines into the framing of a container runtime, which cuts long ones, and
// lines of the other stream between the pieces.
func frame(data []byte) []byte {
	var out bytes.Buffer
	const stamp = "2026-11-21T07:38:01.123456789Z "
	for line := range bytes.Lines(data) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		for len(line) > 200 {
			out.WriteString(stamp + "stderr P " + string(line[:200]) + "\n")
			out.WriteString(stamp + "stdout P I1121 07:38:01 \n" + stamp + "stdout F klog says something\n")
			line = line[200:]
		}
		out.WriteString(stamp + "stderr F " + string(line) + "\n")
	}
	return out.Bytes()
}

func amongText(data []byte) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(data) {
		out.WriteString("I1121 07:38:01.123456       1 leaderelection.go:250] attempting {\"a\":1}\n\n \t\r\n")
		out.WriteString("2026-11-21T07:38:01.123Z\tDEBUG\twebhook\tdenied admission: x\t{\"event_type\":\"violation\"}\n")
		out.WriteString("[1,2]\n\"text\"\n7\n")
		out.Write(line)
	}
	return out.Bytes()
}

// TestAnotherFormat: lines that were passed over in a wrong format are read in the right.
func TestAnotherFormat(t *testing.T) {
	t.Parallel()
	b := newBench(t, formats.CRI)
	b.write("2026-01-05T10:04:07.1Z stdout F {\"n\":1}\n{\"n\":2}\n")
	b.start()
	b.wantStored([]string{`{"n":1}`})
	b.stop()
	b.config.Format = formats.JSON
	b.start()
	b.wantStored([]string{`{"n":1}`, `{"n":1}`, `{"n":2}`})
}
