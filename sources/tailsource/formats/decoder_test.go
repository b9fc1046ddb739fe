package formats

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// decode runs the bytes of a whole file through a decoder, in pieces of the given size.
func decode(format Format, limit, piece int, data []byte) (records []string, large []int64) {
	d := NewDecoder(Options{Format: format, Limit: limit}, &Carry{})
	for part := range slices.Chunk(data, piece) {
		d.Decode(part)
	}
	d.End(false)
	_ = d.Batch.Send(func(text []byte, _ int) error {
		for line := range strings.Lines(string(text)) {
			records = append(records, strings.TrimSuffix(line, "\n"))
		}
		return nil
	}, func(_ []byte, length int64) error {
		large = append(large, length)
		return nil
	})
	return records, large
}

func sample(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "testdata", "samples", "gatekeeper", name))
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

// TestOPAConsole takes decisions among OPA's other lines.
func TestOPAConsole(t *testing.T) {
	t.Parallel()
	decisionLine := `{"decision_id":"d6c97c8e","input":{"n":12345678901234567890,"s":"\u003c"},"labels":{"id":"x"},"level":"info","msg":"Decision Log","result":true,"time":"2026-11-21T07:42:03Z","type":"openpolicyagent.org/decision_logs"}`
	data := text(`{"level":"info","msg":"Initializing server.","time":"2026-11-21T07:42:00Z"}`, decisionLine,
		`{"level":"info","msg":"Received request.","type":"other","text":"openpolicyagent.org/decision_logs"}`, decisionLine, "text")
	got, _ := decode(OPAConsole, 1<<20, 1<<20, []byte(data))
	if want := []string{decisionLine, decisionLine}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestWhatIsEmitted: what cannot be read is passed on to be refused if it might have
// been a record, and passed over if it cannot be one.
func TestWhatIsEmitted(t *testing.T) {
	t.Parallel()
	const stamp = "2026-01-05T10:04:07.123456789Z "
	for name, test := range map[string]struct {
		format Format
		data   string
		want   []string
		large  []int64
	}{
		"no newline at the end":       {JSON, "{\"a\":1}\n{\"a\":2}", []string{`{"a":1}`, `{"a":2}`}, nil},
		"torn at the end":             {GatekeeperDenies, `{"event_type":"viol`, []string{`{"event_type":"viol`}, nil},
		"torn in the middle":          {GatekeeperDenies, "{\"level\":\"in{\"event_type\":\"violation\"}\n", []string{`{"level":"in{"event_type":"violation"}`}, nil},
		"carriage returns":            {JSON, "{\"a\":1}\r\n\r\n", []string{`{"a":1}`}, nil},
		"spaces are kept":             {JSON, "  {\"a\": 1} \n", []string{`  {"a": 1} `}, nil},
		"NUL bytes before a line":     {JSON, strings.Repeat("\x00", 3000) + "{\"a\":1}\n\x00\x00{\"a\":2}\n\x00", []string{`{"a":1}`, `{"a":2}`}, nil},
		"NUL bytes within a line":     {JSON, "{\"a\":\x00\x00}\n", []string{"{\"a\":\x00\x00}"}, nil},
		"as long as can be":           {JSON, `{"a":"` + strings.Repeat("x", 92) + "\"}\r\n", []string{`{"a":"` + strings.Repeat("x", 92) + `"}`}, nil},
		"one byte longer":             {JSON, `{"a":"` + strings.Repeat("x", 93) + "\"}\n{}\n", []string{"{}"}, []int64{101}},
		"much longer":                 {JSON, `{"a":"` + strings.Repeat("x", 50000) + "\"}\n{}\n", []string{"{}"}, []int64{50008}},
		"long text":                   {JSON, strings.Repeat("x", 50000) + "\n{}\n", []string{"{}"}, nil},
		"long and unfinished":         {JSON, `{"a":"` + strings.Repeat("x", 50000), nil, []int64{50006}},
		"long for Gatekeeper":         {GatekeeperDenies, `{"a":"` + strings.Repeat("x", 200) + "\"}\n", nil, []int64{208}},
		"framed":                      {CRI, stamp + "stdout F {\"a\":1}\n", []string{`{"a":1}`}, nil},
		"framed with tags":            {CRI, stamp + "stdout P:x:y {\"a\":\n" + stamp + "stdout F:z 1}\n", []string{`{"a":1}`}, nil},
		"framed, no text":             {CRI, stamp + "stdout F \n" + stamp + "stdout F\n", nil, nil},
		"framed streams interleave":   {CRI, stamp + "stdout P {\"a\":\n" + stamp + "stderr P {\"b\":\n" + stamp + "stdout F 1}\n" + stamp + "stderr F 2}\n", []string{`{"a":1}`, `{"b":2}`}, nil},
		"framed and too long":         {CRI, stamp + "stdout P {\"a\":\"" + strings.Repeat("x", 60) + "\n" + stamp + "stdout P " + strings.Repeat("y", 60) + "\n" + stamp + "stdout F \"}\n" + stamp + "stdout F {}\n", []string{"{}"}, []int64{128}},
		"one framed line is too long": {CRI, stamp + "stdout F {\"a\":\"" + strings.Repeat("x", 60000) + "\"}\n", nil, []int64{60008}},
		"framed otherwise":            {CRI, "2026-01-05 10:04:07 stdout F {}\n" + stamp + "stdin F {}\n" + stamp + "stdout X {}\n" + stamp + "\n{}\n", nil, nil},
		"zone":                        {CRI, "2026-01-05T10:04:07.1+02:00 stdout F {}\n", []string{"{}"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, piece := range []int{1, 3, 64, 1 << 20} {
				got, large := decode(test.format, 100, piece, []byte(test.data))
				if !slices.Equal(got, test.want) || !slices.Equal(large, test.large) {
					t.Errorf("in pieces of %d: got %q and too large %v, want %q and %v", piece, got, large, test.want, test.large)
				}
			}
		})
	}
}

// TestDamagedSamples: whatever is cut or changed, nothing is made up, and what is whole
// is taken.
func TestDamagedSamples(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"webhook-log-denies.jsonl", "audit-stderr-one-run.jsonl"} {
		data := sample(t, name)
		whole := append(linesWith(data, `"event_type":"violation"`), linesWith(data, `"event_type":"violation_audited"`)...)
		for end := range data {
			// The lines before the last two are as they were for the cuts before.
			last := bytes.LastIndexByte(data[:end], '\n') + 1
			from := bytes.LastIndexByte(data[:max(0, last-1)], '\n') + 1
			got, _ := decode(GatekeeperDenies, 1<<20, 1<<20, data[from:end])
			complete := linesWith(data[from:last], `"event_type":"violation`)
			if len(got) < len(complete) || !slices.Equal(got[:len(complete)], complete) {
				t.Fatalf("%s cut at %d: got %d records, want the %d before it", name, end, len(got), len(complete))
			}
		}
		for bit := 0; bit < 8*len(data); bit += 331 {
			flipped := bytes.Clone(data)
			flipped[bit/8] ^= 1 << (bit % 8)
			got, _ := decode(GatekeeperDenies, 1<<20, 1<<20, flipped)
			same := 0
			for _, g := range got {
				if slices.Contains(whole, g) {
					same++
				}
			}
			if same < len(whole)-2 { // a newline that is flipped joins two lines
				t.Fatalf("%s with bit %d flipped: got %d records as they were, want at least %d", name, bit, same, len(whole)-2)
			}
		}
	}
}

// FuzzDecode: the pieces in which a file is read make no difference, and nothing over
// the limit is let through.
func FuzzDecode(f *testing.F) {
	f.Add(uint8(0), uint8(3), []byte("{\"a\":1}\n\x00{\"a\":2}\r\ntext\n{"))
	f.Add(uint8(1), uint8(5), []byte("2026-01-05T10:04:07.1Z stdout P {\"a\":\n2026-01-05T10:04:07.1Z stdout F 1}\n"))
	f.Add(uint8(2), uint8(9), []byte("{\"event_type\":\"violation_audited\"}\n{\"event_type\":\"audit_finished\",\"msg\":\"\"}\n"))
	f.Add(uint8(3), uint8(1), []byte(`{"type":"openpolicyagent.org/decision_logs"}`))
	f.Fuzz(func(t *testing.T, format, piece uint8, data []byte) {
		formats := []Format{JSON, CRI, GatekeeperDenies, OPAConsole}
		chosen := formats[int(format)%len(formats)]
		const limit = 150
		want, wantLarge := decode(chosen, limit, len(data)+1, data)
		got, gotLarge := decode(chosen, limit, int(piece)+1, data)
		if !slices.Equal(got, want) || !slices.Equal(gotLarge, wantLarge) {
			t.Fatalf("in pieces of %d: got %q %v, want %q %v", piece+1, got, gotLarge, want, wantLarge)
		}
		for _, g := range got {
			if !isObject([]byte(g)) || len(g) > limit {
				t.Fatalf("got the record %q, want an object of at most %d bytes", g, limit)
			}
		}
	})
}

func text(lines ...string) string { return strings.Join(lines, "\n") + "\n" }
