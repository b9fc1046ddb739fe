package tailsource

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/sources/tailsource/formats"
)

// decode runs the bytes of a whole file through a decoder, in pieces of the given size.
func decode(format formats.Format, limit, piece int, data []byte) (records []string) {
	d := formats.NewDecoder(formats.Options{Format: format, Limit: limit, Log: "manager.log"}, &formats.Carry{})
	for part := range slices.Chunk(data, piece) {
		d.Decode(formats.Origin{}, part)
	}
	d.End(false)
	_ = d.Batch.Send(func(text []byte, _ int) error {
		for line := range strings.Lines(string(text)) {
			records = append(records, strings.TrimSuffix(line, "\n"))
		}
		return nil
	}, func([]byte, int64) error { return nil })
	return records
}

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
		"audit":             {formats.GatekeeperDenies, audit, append(linesWith(audit, `"event_type":"violation_audited"`), wantRun)},
		"audit framed":      {formats.GatekeeperDenies, frame(audit), append(linesWith(audit, `"event_type":"violation_audited"`), wantRun)},
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
			for _, piece := range []int{1, 7, 4096} {
				if got := decode(test.format, 1<<20, piece, test.data); !slices.Equal(got, test.want) {
					t.Errorf("in pieces of %d: got %d records, want the same %d", piece, len(got), len(test.want))
				}
			}
		})
	}
}

const wantRun = `{"eventType":"docket.audit.run","id":"2026-11-21T07:38:01Z","complete":true,"reason":"CountsAgree","violations":13,"reported":13,` +
	`"constraints":[{"group":"constraints.gatekeeper.sh","kind":"K8sAllowedRepos","name":"repos-warn","violations":3,"reported":3},` +
	`{"group":"constraints.gatekeeper.sh","kind":"K8sReplicaCap","name":"no-host-network","violations":1,"reported":1},` +
	`{"group":"constraints.gatekeeper.sh","kind":"K8sRequiredLabels","name":"ns-must-have-team","violations":7,"reported":7},` +
	`{"group":"constraints.gatekeeper.sh","kind":"K8sRequiredLabels","name":"pods-must-have-owner","violations":2,"reported":2}],"file":"manager.log"}`

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

// TestASampledAuditIsLost: it is counted in the report of the source.
func TestASampledAuditIsLost(t *testing.T) {
	t.Parallel()
	b := newBench(t, formats.GatekeeperDenies)
	data := sample(t, "audit-stderr-one-run.jsonl")
	violations := linesWith(data, `"event_type":"violation_audited"`)
	b.write(strings.Replace(string(data), violations[5]+"\n", "", 1))
	b.start()
	b.await("a run record", func() bool { return len(b.stored()) == len(violations) })
	if got := b.stored()[len(violations)-1]; !strings.Contains(got, `"complete":false,"reason":"LinesLost","violations":12,"reported":13`) {
		t.Errorf("got %s, want that a line is lost", got)
	}
	b.await("a gap", func() bool { r := b.source.Report(); return r.Lost == 1 && r.LostLines == 1 })
	a := b.source.Report().Audits
	if a.Complete != 0 || a.Incomplete != 1 || a.Last.Complete || a.Last.Reason != decision.LinesLost || a.Last.Violations != 12 {
		t.Errorf("got %+v, want one audit, whose last run is not complete", a)
	}

	b.write(string(data))
	b.await("a complete audit", func() bool { a := b.source.Report().Audits; return a.Complete == 1 && a.Last.Complete })
}

// TestARunOverRestartsAndRotations: the counts are kept, wherever a run is cut.
func TestARunOverRestartsAndRotations(t *testing.T) {
	t.Parallel()
	data := sample(t, "audit-stderr-one-run.jsonl")
	want := append(linesWith(data, `"event_type":"violation_audited"`), wantRun)
	all := strings.SplitAfter(string(data), "\n")
	for name, between := range map[string]func(b *bench){
		"restart":          func(b *bench) { b.stop(); b.start() },
		"crash":            func(b *bench) { b.crash(); b.start() },
		"rotation":         func(b *bench) { b.rotate(99) },
		"restart, rotated": func(b *bench) { b.stop(); b.rotate(99); b.start() },
		"copytruncate": func(b *bench) {
			b.awaitSeen() // also of what is no record
			b.copies++
			b.copyTruncate(fmt.Sprintf("%s-2026010%d", b.path, b.copies))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, formats.GatekeeperDenies)
			b.start()
			for _, cut := range []int{3, 9, 16, 18} {
				b.write("")
				from := map[int]int{3: 0, 9: 3, 16: 9, 18: 16}[cut]
				b.write(strings.Join(all[from:cut], ""))
				n := len(linesWith([]byte(strings.Join(all[:cut], "")), `"event_type":"violation_audited"`))
				b.wantStored(want[:n])
				between(b)
			}
			b.write(strings.Join(all[18:], ""))
			b.wantStored(want)
		})
	}
}
