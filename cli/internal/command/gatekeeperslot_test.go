package command

import (
	"errors"
	"os"
	"path/filepath"
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
		want               GatekeeperSlot // empty: none
		problem            string
	}{
		"elsewhere":             {},
		"audit":                 {root: "/tmp/violations/topics", remove: "false", want: GatekeeperSlot{"/tmp/violations/topics", false, "/tmp/violations/docket-data"}},
		"admission":             {root: "/tmp/violations/topics", remove: "true", want: GatekeeperSlot{"/tmp/violations/topics", true, "/tmp/violations/docket-data"}},
		"relative":              {root: "v/t", want: GatekeeperSlot{"/here/v/t", false, "/here/v/docket-data"}},
		"--data":                {root: "/v/t", data: "/d", want: GatekeeperSlot{"/v/t", false, "/d"}},
		"yes":                   {root: "/v/t", remove: "yes", problem: `docket: environment variable DELETE_AFTER_READ is "yes": must be true or false`},
		"white space behind it": {root: "/v/t", remove: "true ", problem: `docket: environment variable DELETE_AFTER_READ is "true ": must be true or false`},
	} {
		t.Run(name, func(t *testing.T) {
			environment := map[string]string{"ROOT_PATH": test.root, "DELETE_AFTER_READ": test.remove}
			got, err := findGatekeeperSlot(func(key string) string { return environment[key] }, test.data)
			if _, ok := errors.AsType[*ConfigError](err); test.problem != "" && (!ok || err.Error() != test.problem) || test.problem == "" && err != nil {
				t.Errorf("got the error %v, want a configuration's %q", err, test.problem)
			}
			if got == nil {
				got = &GatekeeperSlot{}
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
		slot GatekeeperSlot
		good bool
	}{
		"beside":              {GatekeeperSlot{rootPath: "/v/t", data: "/v/docket-data"}, true},
		"odd names":           {GatekeeperSlot{rootPath: "/v/DATA \"ROOT\"\n", data: "/v/ROOT DELETE"}, true},
		"the same":            {GatekeeperSlot{rootPath: "/v/t", data: "/v/t/"}, false},
		"below":               {GatekeeperSlot{rootPath: "/v/t", data: "/v/t/docket"}, false},
		"below, relative":     {GatekeeperSlot{rootPath: ".", data: "docket-data"}, false},
		"below the root":      {GatekeeperSlot{rootPath: "/", data: "/docket-data"}, false},
		"Gatekeeper in queue": {GatekeeperSlot{rootPath: "/v/queue/t", data: "/v"}, false},
		"no text":             {GatekeeperSlot{rootPath: "/v/\xff", data: "/v/d"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := test.slot.config(builtin.Kinds())
			if (err == nil) != test.good {
				t.Fatalf("got the error %v, want none: %v", err, test.good)
			}
			if _, ok := errors.AsType[*ConfigError](err); err != nil && !ok {
				t.Errorf("got %T %v, want a configuration's error", err, err)
			}
			if err == nil && cfg.Queue.Directory != filepath.Join(test.slot.data, "queue") {
				t.Errorf("got the queue in %q, want it in %q", cfg.Queue.Directory, test.slot.data)
			}
		})
	}
}
