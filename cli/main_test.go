package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/docket-export/docket/cli/builtin"
	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/internal/testcli"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"docket": func() { Main(builtin.Kinds()) }})
}

// TestScripts runs the program as a person would. Each script has in $ADMIN an address that nobody
// listens at, and at $REFUSING a destination that takes no batch with a poisoned record until there
// is a file "mended".
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "../testdata/scripts",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			admin, err := testcli.FreeAddress()
			env.Setenv("ADMIN", admin)
			server := httptest.NewServer(refusing(filepath.Join(env.WorkDir, "mended")))
			env.Defer(server.Close)
			env.Setenv("REFUSING", server.URL)
			return err
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":  scriptExits,
			"expand": scriptExpand,
			"ledger": scriptLedger(t),
			"ready":  scriptReady(t),
			"until":  scriptUntil(t),
		},
	})
}

// scriptExits is "exits CODE PROGRAM [ARG...]": exec, and the exact exit code.
func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("got exit code %d, want %d\n%s", got, want, ts.ReadFile("stderr"))
	}
}

// scriptExpand is "expand FILE": it replaces $NAME in a file.
func scriptExpand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: expand FILE")
	}
	text := os.Expand(ts.ReadFile(args[0]), ts.Getenv)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o666))
}

// scriptUntil is "until PATTERN PROGRAM [ARG...]": exec, again and again until the
// standard output matches, for what a docket that runs has yet to do.
func scriptUntil(t *testing.T) func(ts *testscript.TestScript, neg bool, args []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) < 2 {
			ts.Fatalf("usage: until PATTERN PROGRAM [ARG...]")
		}
		want, err := regexp.Compile("(?m)" + args[0])
		ts.Check(err)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(await.Left(t)); ; <-tick.C {
			ts.Check(ts.Exec(args[1], args[2:]...))
			if want.MatchString(ts.ReadFile("stdout")) {
				return
			}
			if time.Now().After(deadline) {
				ts.Fatalf("no time is left to wait for output with %s", args[0])
			}
		}
	}
}

// scriptReady is "ready": it waits until the exporter at $ADMIN is ready.
func scriptReady(t *testing.T) func(ts *testscript.TestScript, neg bool, args []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 0 {
			ts.Fatalf("usage: ready")
		}
		ts.Check(waitReady(t, ts.Getenv("ADMIN")))
	}
}

// waitReady polls, because a process has no other way to say that it is ready.
func waitReady(t *testing.T, admin string) error {
	ctx, cancel := context.WithTimeout(context.Background(), await.Left(t))
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		res, err := http.Get("http://" + admin + "/readyz")
		if err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(res.Status)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("no time is left to wait for readiness, last: %w", err)
		}
	}
}

func refusing(mended string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if _, err := os.Stat(mended); err != nil && bytes.Contains(body, []byte("poison")) {
			http.Error(w, "poison is not mapped", http.StatusUnprocessableEntity)
		}
	})
}

// scriptLedger is "ledger SINK NAME=NUMBER...": it waits until the account of a sink
// says so.
func scriptLedger(t *testing.T) func(ts *testscript.TestScript, neg bool, args []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) < 2 {
			ts.Fatalf("usage: ledger SINK NAME=NUMBER...")
		}
		ctx, cancel := context.WithTimeout(context.Background(), await.Left(t))
		defer cancel()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			got, err := ledgerOf(ctx, ts.Getenv("ADMIN"), args[0])
			if err == nil && agrees(ts, got, args[1:]) {
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				ts.Fatalf("got ledger %v, %v, want %v", got, err, args[1:])
			}
		}
	}
}

func ledgerOf(ctx context.Context, admin, sink string) (map[string]uint64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/status", nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var status struct {
		Ledger struct {
			Sinks map[string]map[string]uint64 `json:"sinks"`
		} `json:"ledger"`
	}
	err = json.NewDecoder(res.Body).Decode(&status)
	return status.Ledger.Sinks[sink], err
}

func agrees(ts *testscript.TestScript, got map[string]uint64, want []string) bool {
	for _, w := range want {
		name, text, _ := strings.Cut(w, "=")
		number, err := strconv.ParseUint(text, 10, 64)
		ts.Check(err)
		if n, known := got[name]; !known || n != number {
			return false
		}
	}
	return true
}
