package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/docket-export/docket/client/clienttest/await"
	"github.com/docket-export/docket/internal/testcli"
)

// TestDeadLetterScripts are scripts with a destination, at $REFUSING, that takes no
// batch with a poisoned record until there is a file "mended".
func TestDeadLetterScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "../testdata/scripts/deadletter",
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
