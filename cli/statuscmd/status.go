// Package statuscmd has the command that asks a running docket how it is: docket status.
package statuscmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/exporter"
)

// statusInterval is how often --watch asks: fast enough to see a sink recover,
// slow enough to read.
const statusInterval = time.Second

// statusTimeout bounds one question, which docket answers from memory.
const statusTimeout = 5 * time.Second

// maxStatus bounds the answer. A status is a few hundred bytes a sink; whatever
// is longer comes from something that is not docket.
const maxStatus = 16 << 20

// New returns docket status.
func New(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show sinks, queue and ledger of the running docket",
		Long: `status asks the admin endpoint of a running docket how its sinks, its queue and
its sources are doing, and for the account of every line it has received.`,
		Example: `  docket status                    the docket that runs without a configuration file
  docket status -f docket.yaml     the one that runs with this file
  docket status --watch
  docket status -o json            the document of /status, byte for byte`,
		Args: command.NoArgs,
	}
	var file, admin string
	var watch bool
	cmd.Flags().StringVarP(&file, "file", "f", "", "configuration file that names the admin endpoint")
	cmd.Flags().StringVar(&admin, "admin", "", "address of the admin endpoint, host:port")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show the status again each second, until Ctrl-C")
	output := command.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		address, err := adminAddress(kinds, file, admin)
		if err != nil {
			return err
		}
		s := newStatusCommand(address, output.Value == "json")
		if watch {
			return command.Failed(s.watch(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), statusInterval))
		}
		return command.Failed(s.print(cmd.Context(), cmd.OutOrStdout()))
	}
	return cmd
}

// adminAddress is where the admin endpoint is: as given, or as configured.
func adminAddress(kinds exporter.Kinds, file, admin string) (string, error) {
	if admin != "" && file != "" {
		return "", errors.New("--admin and --file exclude each other: the file names the endpoint")
	}
	if admin != "" {
		return admin, nil
	}
	cfg, err := command.LoadConfig(kinds, file, command.DefaultDataDir)
	if err != nil {
		return "", err
	}
	if cfg.Admin.Address == "" {
		return "", fmt.Errorf("%s has no admin.address: give the endpoint with --admin", file)
	}
	return cfg.Admin.Address, nil
}

// statusCommand shows the status of one exporter.
type statusCommand struct {
	url     string
	address string
	json    bool
	timeout time.Duration
}

func newStatusCommand(address string, json bool) statusCommand {
	return statusCommand{url: "http://" + address + "/status", address: address, json: json, timeout: statusTimeout}
}

// print shows the status once.
func (s statusCommand) print(ctx context.Context, w io.Writer) error {
	body, err := s.fetch(ctx)
	if err != nil {
		return err
	}
	return s.write(w, body)
}

// watch shows the status again and again until ctx is done: in place on a
// terminal, elsewhere one block below the other, each with its time. An exporter
// that does not answer is not given up, it may be restarting: errw says so.
func (s statusCommand) watch(ctx context.Context, w, errw io.Writer, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		body, err := s.fetch(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if !s.json {
			if err := terminal.Clear(w); err != nil {
				return err
			}
		}
		if err != nil {
			fmt.Fprintln(errw, err)
		} else if err := s.writeBlock(w, body); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// writeBlock is one turn of watch.
func (s statusCommand) writeBlock(w io.Writer, body []byte) error {
	if s.json || terminal.IsTerminal(w) {
		return s.write(w, body)
	}
	fmt.Fprintln(w, time.Now().Format(time.RFC3339))
	if err := s.write(w, body); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n\n")
	return err
}

// write shows one answer: as it came, or as text.
func (s statusCommand) write(w io.Writer, body []byte) error {
	if s.json {
		_, err := w.Write(body)
		return err
	}
	var status exporter.Status
	if err := json.Unmarshal(body, &status); err != nil {
		return fmt.Errorf("what answers at %s is not docket: %w", s.url, err)
	}
	return writeStatus(w, status, time.Now())
}

// fetch gets the status document.
func (s statusCommand) fetch(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, fmt.Errorf("admin endpoint %q: %w", s.address, err)
	}
	// The endpoint is on this machine: a proxy from the environment would look
	// for it on another one.
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("nothing listens at %s: is docket running? start it with: docket run", s.address)
	}
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s, not a status: is it docket's admin endpoint?", s.url, res.Status)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxStatus+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.url, err)
	}
	if len(body) > maxStatus {
		return nil, fmt.Errorf("%s answers more than %d bytes: it is not docket's admin endpoint", s.url, maxStatus)
	}
	return body, nil
}
