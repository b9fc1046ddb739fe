package cli

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/cli/builtin"
)

func TestFindGatekeeperSlot(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		root, remove, data string
		want               gatekeeperSlot // empty: none
		problem            string
	}{
		"elsewhere":             {},
		"elsewhere, by --data":  {data: "d", remove: "true"},
		"elsewhere, whatever":   {remove: "perhaps"},
		"audit":                 {root: "/tmp/violations/topics", remove: "false", want: gatekeeperSlot{"/tmp/violations/topics", false, "/tmp/violations/docket-data"}},
		"admission":             {root: "/tmp/violations/topics", remove: "true", want: gatekeeperSlot{"/tmp/violations/topics", true, "/tmp/violations/docket-data"}},
		"nothing of deletion":   {root: "/v/t", want: gatekeeperSlot{"/v/t", false, "/v/docket-data"}},
		"slashes at the end":    {root: "/v/t//", want: gatekeeperSlot{"/v/t", false, "/v/docket-data"}},
		"relative":              {root: "v/t", want: gatekeeperSlot{"/here/v/t", false, "/here/v/docket-data"}},
		"relative, one name":    {root: "t", want: gatekeeperSlot{"/here/t", false, "/here/docket-data"}},
		"--data":                {root: "/v/t", data: "/d", want: gatekeeperSlot{"/v/t", false, "/d"}},
		"yes":                   {root: "/v/t", remove: "yes", problem: `docket: environment variable DELETE_AFTER_READ is "yes": must be true or false`},
		"another case":          {root: "/v/t", remove: "True", problem: `docket: environment variable DELETE_AFTER_READ is "True": must be true or false`},
		"number":                {root: "/v/t", remove: "1", problem: `docket: environment variable DELETE_AFTER_READ is "1": must be true or false`},
		"white space behind it": {root: "/v/t", remove: "true ", problem: `docket: environment variable DELETE_AFTER_READ is "true ": must be true or false`},
	} {
		t.Run(name, func(t *testing.T) {
			environment := map[string]string{"ROOT_PATH": test.root, "DELETE_AFTER_READ": test.remove}
			got, err := findGatekeeperSlot(func(key string) string { return environment[key] }, test.data)
			if _, ok := errors.AsType[*configError](err); test.problem != "" && (!ok || err.Error() != test.problem) || test.problem == "" && err != nil {
				t.Errorf("got the error %v, want a configuration's %q", err, test.problem)
			}
			if got == nil {
				got = &gatekeeperSlot{}
			}
			for _, path := range []*string{&test.want.rootPath, &test.want.data} {
				*path = strings.Replace(*path, "/here", here, 1)
			}
			if *got != test.want {
				t.Errorf("got %+v, want %+v", *got, test.want)
			}
		})
	}
}

// The data directory and that of Gatekeeper are apart, whatever their names.
func TestGatekeeperSlotApart(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, test := range map[string]struct {
		slot gatekeeperSlot
		good bool
	}{
		"beside":              {gatekeeperSlot{rootPath: "/v/t", data: "/v/docket-data"}, true},
		"elsewhere":           {gatekeeperSlot{rootPath: "/v/t", data: "/var/lib/docket"}, true},
		"above":               {gatekeeperSlot{rootPath: "/v/t", data: "/v"}, true},
		"a longer name":       {gatekeeperSlot{rootPath: "/v/t", data: "/v/tt"}, true},
		"odd names":           {gatekeeperSlot{rootPath: "/v/DATA \"ROOT\"\n", data: "/v/ROOT DELETE"}, true},
		"the same":            {gatekeeperSlot{rootPath: "/v/t", data: "/v/t/"}, false},
		"below":               {gatekeeperSlot{rootPath: "/v/t", data: "/v/t/docket"}, false},
		"below, by dots":      {gatekeeperSlot{rootPath: "/v/t", data: "/v/u/../t/docket"}, false},
		"below, relative":     {gatekeeperSlot{rootPath: ".", data: "docket-data"}, false},
		"below the root":      {gatekeeperSlot{rootPath: "/", data: "/docket-data"}, false},
		"Gatekeeper in queue": {gatekeeperSlot{rootPath: "/v/queue/t", data: "/v"}, false},
		"no text":             {gatekeeperSlot{rootPath: "/v/\xff", data: "/v/d"}, false},
		"no text for data":    {gatekeeperSlot{rootPath: "/v/t", data: "/v/\xff"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := test.slot.config(builtin.Kinds())
			if (err == nil) != test.good {
				t.Fatalf("got the error %v, want none: %v", err, test.good)
			}
			if _, ok := errors.AsType[*configError](err); err != nil && !ok {
				t.Errorf("got %T %v, want a configuration's error", err, err)
			}
			if err == nil && cfg.Queue.Directory != filepath.Join(test.slot.data, "queue") {
				t.Errorf("got the queue in %q, want it in %q", cfg.Queue.Directory, test.slot.data)
			}
		})
	}
}

// TestGatekeeperSlotRuns: docket does the work of Gatekeeper's demo reader, with nothing
// but records on its standard output, and leaves Gatekeeper's directory alone.
func TestGatekeeperSlotRuns(t *testing.T) {
	const name = "2026-11-21T08_13_00Z.log"
	for title, test := range map[string]struct {
		remove string
		left   []string // in Gatekeeper's directory
	}{
		"audit":     {"", []string{name}},
		"admission": {"true", nil},
	} {
		t.Run(title, func(t *testing.T) {
			samples, err := filepath.Glob("../testdata/samples/gatekeeper/disk-export-audit-channel-*.log")
			if err != nil || len(samples) != 1 {
				t.Fatalf("got the samples %v, error %v, want one", samples, err)
			}
			want := readFile(t, samples[0])
			root := setSlot(t, test.remove)
			channel := filepath.Join(root, "audit-channel")
			if err := os.Mkdir(channel, 0o777); err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Join(channel, name), want)

			p, stdout := startSlot(t)
			eventually(t, "a run record on standard output", func() bool { return strings.Contains(stdout(), "docket.audit.run") })
			eventually(t, "the file deleted or left", func() bool { return slices.Equal(filesBelow(t, root), test.left) })
			p.interrupt()
			if got := p.wait(); got != exitOK {
				t.Errorf("got exit code %d, want %d:\n%s", got, exitOK, p.stderr())
			}
			got, run, _ := strings.Cut(stdout(), `{"eventType":"docket.audit.run"`)
			if got != want || strings.Count(run, "\n") != 1 {
				t.Errorf("got on standard output\n%s\nwant the file and one run record:\n%s", stdout(), want)
			}
			if got := filesBelow(t, root); !slices.Equal(got, test.left) {
				t.Errorf("got the files %v in Gatekeeper's directory, want %v", got, test.left)
			}
			if _, err := os.Stat("violations/docket-data/queue"); err != nil {
				t.Errorf("got no queue beside Gatekeeper's directory: %v", err)
			}
		})
	}
}

// setSlot makes the environment one of a container beside Gatekeeper, in a directory of
// its own.
func setSlot(t *testing.T, remove string) (root string) {
	t.Helper()
	t.Chdir(t.TempDir())
	root = filepath.Join("violations", "topics")
	if err := os.MkdirAll(root, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ROOT_PATH", root)
	t.Setenv("DELETE_AFTER_READ", remove)
	return root
}

// startSlot runs the configuration of the environment, but for the address of its admin
// endpoint: another docket on this machine may have that.
func startSlot(t *testing.T) (p *process, stdout func() string) {
	t.Helper()
	admin, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	printed := newProcess(t, "config")
	stdout = catchStdout(t, printed)
	printed.start()
	if got := printed.wait(); got != exitOK {
		t.Fatalf("got exit code %d of config, want %d:\n%s", got, exitOK, printed.stderr())
	}
	writeFile(t, "docket.yaml", strings.ReplaceAll(stdout(), "127.0.0.1:9464", admin))
	p = newProcess(t, "run", "-f", "docket.yaml")
	stdout = catchStdout(t, p)
	p.start()
	return p, stdout
}

// catchStdout returns what p has written so far, once it is started.
func catchStdout(t *testing.T, p *process) (stdout func() string) {
	t.Helper()
	out, err := os.CreateTemp(".", "stdout")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	p.cmd.Stdout = out
	return func() string { return readFile(t, out.Name()) }
}

// TestGatekeeperSlotExplains: docket says what it has decided and why before anything
// else. Here it gets no further than its admin endpoint, whose address is taken.
func TestGatekeeperSlotExplains(t *testing.T) {
	if l, err := net.Listen("tcp", "127.0.0.1:9464"); err == nil { // else another process has it
		defer l.Close()
	}
	for remove, says := range map[string]string{
		"":      "DELETE_AFTER_READ is not true: files are left",
		"false": "DELETE_AFTER_READ is not true: files are left",
		"true":  "DELETE_AFTER_READ is true: a file is deleted",
	} {
		t.Run(remove, func(t *testing.T) {
			root := setSlot(t, remove)
			p := newProcess(t, "run", "--data", "elsewhere")
			stdout := catchStdout(t, p)
			p.start()
			if got := p.wait(); got != exitFailed || !strings.Contains(p.stderr(), "address already in use") || stdout() != "" {
				t.Errorf("got exit code %d, standard output %q and\n%s\nwant %d, as the admin endpoint's address is taken", got, stdout(), p.stderr(), exitFailed)
			}
			for _, want := range []string{root, "ROOT_PATH is set: docket reads what Gatekeeper exports", says, "the queue is apart from ROOT_PATH", "elsewhere/queue"} {
				if !strings.Contains(p.stderr(), want) {
					t.Errorf("got the log\n%s\nwant %q in it", p.stderr(), want)
				}
			}
		})
	}
}

// filesBelow returns the names of the files below dir.
func filesBelow(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, d.Name())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
