package command

import (
	"io"
	"log/slog"

	"github.com/docket-export/docket/cli/internal/terminal"
)

// NewLog returns the log of a running exporter. The words are those of the flags;
// without a format it depends on who reads w.
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
