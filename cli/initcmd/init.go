// Package initcmd has docket init.
package initcmd

import (
	_ "embed" // sample.yaml
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sources"
)

// New returns docket init.
func New(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a commented configuration to start with",
		Long: `init prints a configuration for the sources and sinks that you choose. It works
unchanged in the current directory, if docket can reach the sinks. Its comments
say what to change.

  sources: ` + strings.Join(kinds.Sources.Keys(), ", ") + `
  sinks:   ` + strings.Join(kinds.Sinks.Keys(), ", "),
		Example: `  docket init > docket.yaml
  docket init --source gatekeeper --source opa --sink kafka --sink file > docket.yaml
  docket check -f docket.yaml`,
		Args: command.NoArgs,
	}
	chosenSources := cmd.Flags().StringArray("source", []string{"unix"}, "`KIND` of a source; may be repeated")
	chosenSinks := cmd.Flags().StringArray("sink", []string{"file"}, "`KIND` of a sink; may be repeated")
	_ = cmd.RegisterFlagCompletionFunc("source", cobra.FixedCompletions(kinds.Sources.Keys(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("sink", cobra.FixedCompletions(kinds.Sinks.Keys(), cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		text, err := Sample(kinds, *chosenSources, *chosenSinks)
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(cmd.OutOrStdout(), text)
		return command.Failed(err)
	}
	return cmd
}

//go:embed sample.yaml
var sample string

// Sample returns a configuration with a source and a sink of each of these kinds. A kind
// that is named twice has two entries.
func Sample(kinds exporter.Kinds, sourceKinds, sinkKinds []string) (string, error) {
	sourceList, err := entries("--source", kinds.Sources, sourceKinds, func(d sources.Definition) string { return d.Sample })
	if err != nil {
		return "", err
	}
	sinkList, err := entries("--sink", kinds.Sinks, sinkKinds, func(d sinks.Definition) string { return d.Sample })
	if err != nil {
		return "", err
	}
	return strings.NewReplacer("SOURCES\n", sourceList, "SINKS\n", sinkList).Replace(sample), nil
}

// entries returns the samples of chosen, each with a name, a path and a port of its own.
func entries[D config.Keyed](flag string, kinds config.Registry[D], chosen []string, sampleOf func(D) string) (string, error) {
	var b strings.Builder
	count := make(map[string]int)
	for _, kind := range chosen {
		definition, _ := kinds.Lookup(kind)
		if err := config.Choice(kind, kinds.Keys()...); err != nil {
			return "", fmt.Errorf("%s: %w", flag, err)
		}
		text := sampleOf(definition)
		if text == "" {
			return "", fmt.Errorf("%s %s: this kind has no sample: see its documentation", flag, kind)
		}
		count[kind]++
		b.WriteString(numbered(text, kind, count[kind]))
		b.WriteByte('\n')
	}
	return b.String(), nil
}

var port = regexp.MustCompile(`PORT[0-9]+`)

// numbered is the sample text for the n-th entry of a kind.
func numbered(text, kind string, n int) string {
	name, count := dashed(kind), ""
	if n > 1 {
		count = strconv.Itoa(n)
		name += "-" + count
	}
	text = strings.NewReplacer("NAME", name, "COUNT", count).Replace(text)
	return port.ReplaceAllStringFunc(text, func(p string) string {
		first, _ := strconv.Atoi(strings.TrimPrefix(p, "PORT"))
		return strconv.Itoa(first + n - 1)
	})
}

// dashed makes a name of a kind: kubernetes-audit of kubernetesAudit.
func dashed(kind string) string {
	var b strings.Builder
	for _, r := range kind {
		if unicode.IsUpper(r) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
