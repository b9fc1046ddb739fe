package sendcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/client/clienttest/conformance"
	"github.com/docket-export/docket/internal/human"
)

// NewTestserver returns docket testserver.
func NewTestserver() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "testserver [-- COMMAND [ARG...]]",
		Short: "Check a producer against the stream protocol",
		Long: `testserver acts as docket for a producer in any language. It simulates failures,
and reports what the producer does wrong with lines and numbers of docket stream
v1. It does not check pauses, names of producers, loss records, or what the
producer reports of refusals. It stores nothing.

It runs COMMAND once for each scenario, with two environment variables:

  DOCKET_ADDRESS  the address to connect to, such as unix:///tmp/docket.sock
  DOCKET_RECORDS  how many records to send, each a different JSON object

COMMAND must exit 0 as soon as each record is acknowledged, and not before. A
record that is refused for good counts as acknowledged. A record that is refused
as QueueFull does not: send it again under the same number. Without COMMAND,
testserver waits until you start the producer by hand. It exits 0 when all
scenarios have passed. The scenarios are:

` + scenariosText(),
		Example: `  docket testserver -- python3 producer.py
  docket testserver --scenario restart -- ./producer --verbose
  docket testserver --address tcp://127.0.0.1:0 -o json -- ./producer
  docket testserver --socket /tmp/docket.sock     and start the producer yourself`,
	}
	var suite conformance.Suite
	var socket string
	var only []string
	cmd.Flags().StringVar(&suite.Address, "address", "", "listening address, unix:///PATH or tcp://127.0.0.1:PORT (default a socket in a new directory)")
	cmd.Flags().StringVar(&socket, "socket", "", "listening address, as the path of a Unix domain socket")
	cmd.Flags().IntVar(&suite.Records, "records", conformance.DefaultRecords, "number of records; slow-reader uses a hundred times as many, acks-lost at least 30,000")
	suite.Timeout = conformance.DefaultTimeout
	cmd.Flags().Var(command.Duration{To: &suite.Timeout}, "timeout", "time limit of one scenario")
	cmd.Flags().StringArrayVar(&only, "scenario", nil, "play only this scenario; may be given several times")
	output := command.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
			return fmt.Errorf("unexpected argument %q: the command of the producer comes after --", args[0])
		}
		s, err := newTestserverCommand(suite, socket, only, args)
		if err != nil {
			return err
		}
		s.json, s.out, s.errs = output.Value == "json", cmd.OutOrStdout(), cmd.ErrOrStderr()
		return command.Failed(s.run(cmd.Context()))
	}
	return cmd
}

// scenariosText lists the scenarios for the help.
func scenariosText() string {
	const column = "                    "
	var b strings.Builder
	for _, s := range conformance.Scenarios() {
		head := "  " + s.Name
		b.WriteString(human.Wrap(head+column[len(head):], s.About, column))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// testserverCommand tries one producer.
type testserverCommand struct {
	suite     conformance.Suite
	scenarios []conformance.Scenario
	command   []string // of the producer; empty: it is started by hand
	json      bool
	out, errs io.Writer
}

func newTestserverCommand(suite conformance.Suite, socket string, only, command []string) (*testserverCommand, error) {
	if socket != "" && suite.Address != "" {
		return nil, errors.New("--socket and --address exclude each other: both say where to listen")
	}
	if socket != "" {
		path, err := filepath.Abs(socket)
		if err != nil {
			return nil, fmt.Errorf("socket %s: %w", socket, err)
		}
		suite.Address = "unix://" + path
	}
	if suite.Timeout == 0 || suite.Records == 0 { // what the suite takes for its defaults
		return nil, errors.New("--timeout and --records must not be 0")
	}
	if err := suite.Validate(); err != nil {
		return nil, err
	}
	scenarios, err := chooseScenarios(only)
	if err != nil {
		return nil, err
	}
	if len(command) > 0 {
		if command, err = findProgram(command); err != nil {
			return nil, err
		}
	}
	return &testserverCommand{suite: suite, scenarios: scenarios, command: command}, nil
}

// chooseScenarios returns those with these names, all if there are none.
func chooseScenarios(names []string) ([]conformance.Scenario, error) {
	all := conformance.Scenarios()
	if len(names) == 0 {
		return all, nil
	}
	known := make([]string, len(all))
	for i, s := range all {
		known[i] = s.Name
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("no scenario %q: choose one of %s", name, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(all, func(s conformance.Scenario) bool { return !slices.Contains(names, s.Name) }), nil
}

// run plays the scenarios one after the other. It is nil when all have passed.
func (c *testserverCommand) run(ctx context.Context) error {
	results := make([]scenarioJSON, 0, len(c.scenarios))
	wrong := 0
	for _, s := range c.scenarios {
		result, err := c.try(ctx, s)
		if err != nil {
			return err
		}
		if !result.Passed {
			wrong++
		}
		results = append(results, result)
		if !c.json {
			if err := result.write(c.out); err != nil {
				return err
			}
		}
	}
	if c.json {
		if err := terminal.WriteJSON(c.out, results); err != nil {
			return err
		}
	} else if _, err := fmt.Fprintf(c.out, "\n%d of %d scenarios passed\n", len(results)-wrong, len(results)); err != nil {
		return err
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d scenarios failed", wrong, len(results))
	}
	return nil
}

// try plays one scenario.
func (c *testserverCommand) try(ctx context.Context, s conformance.Scenario) (scenarioJSON, error) {
	var p conformance.Producer
	said := new(outputTail)
	suite := c.suite
	if len(c.command) > 0 {
		p = commandProducer(c.command, said)
	} else {
		suite.Waiting = c.waiting
	}
	r, err := suite.Try(ctx, s, p)
	if err != nil {
		return scenarioJSON{}, err
	}
	result := scenarioJSON{Name: s.Name, About: s.About, Passed: r.Passed(), Seconds: r.Elapsed.Seconds(), Faults: []faultJSON{}, Output: said.String()}
	for _, f := range r.Faults {
		result.Faults = append(result.Faults, faultJSON(f))
	}
	return result, nil
}

// waiting tells a person what to do.
func (c *testserverCommand) waiting(s conformance.Scenario, address string, records int) {
	fmt.Fprintf(c.errs, "%s: %s.\nStart a producer that sends %s to %s\n", s.Name, s.About, human.Count(uint64(records), "different record"), address)
}

// scenarioJSON is a scenario in -o json.
type scenarioJSON struct {
	Name    string      `json:"name"`
	About   string      `json:"about"`
	Passed  bool        `json:"passed"`
	Seconds float64     `json:"seconds"`
	Faults  []faultJSON `json:"faults"`
	Output  string      `json:"output"` // the end of what the producer has printed
}

type faultJSON struct {
	Expected string `json:"expected"`
	Got      string `json:"got"`
}

// write shows r as text for a person. What the producer has printed matters only
// when something is wrong.
func (r scenarioJSON) write(w io.Writer) error {
	word := "pass"
	if !r.Passed {
		word = "FAIL"
	}
	t := tabwriter.NewWriter(w, 24, 0, 2, ' ', 0) // wide enough for every name, so that the lines agree
	fmt.Fprintf(t, "%s  %s\t%s\n", word, r.Name, time.Duration(r.Seconds*float64(time.Second)).Round(10*time.Millisecond))
	if err := t.Flush(); err != nil || r.Passed {
		return err
	}
	const indent = "                "
	var b strings.Builder
	for _, f := range r.Faults {
		b.WriteString(human.Wrap("      expected  ", f.Expected, indent))
		b.WriteString(human.Wrap("      got       ", f.Got, indent))
	}
	head := "      output    "
	for line := range strings.Lines(r.Output) {
		b.WriteString(head + human.OneLine(strings.TrimRight(line, "\r\n")) + "\n")
		head = indent
	}
	_, err := io.WriteString(w, b.String())
	return err
}
