package command

import (
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/terminal"
)

// LogFlags adds the flags for the log that a running program writes to w. Call newLog only
// after the flags are parsed.
func LogFlags(cmd *cobra.Command, w io.Writer) (newLog func() *slog.Logger) {
	format := &Choice{Words: []string{"text", "json"}}
	cmd.Flags().Var(format, "log-format", "form of the log (default text on a terminal, json otherwise)")
	level := &Choice{Value: "info", Words: []string{"debug", "info", "warn", "error"}}
	cmd.Flags().Var(level, "log-level", "lowest level to log")
	return func() *slog.Logger { return NewLog(w, format.Value, level.Value) }
}

// NewLog returns the log of a running docket. format and level are words of the flags.
// Without a format, a terminal gets text and any other w gets JSON.
func NewLog(w io.Writer, format, level string) *slog.Logger {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		panic(err) // the flag takes only levels
	}
	options := &slog.HandlerOptions{Level: least}
	if format == "json" || format == "" && !terminal.IsTerminal(w) {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
