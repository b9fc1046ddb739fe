package command

import (
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/docket-export/docket/exporter"
)

// The environment that Gatekeeper's Helm chart gives to the container in the place it
// has for an exporter.
const (
	rootPathVariable = "ROOT_PATH"
	deleteVariable   = "DELETE_AFTER_READ"
)

// GatekeeperSlot says where docket runs beside Gatekeeper.
type GatekeeperSlot struct {
	rootPath        string // where Gatekeeper exports to
	deleteAfterRead bool
	data            string // where docket keeps what it must
}

// findGatekeeperSlot returns what the environment says; nil when docket runs elsewhere.
// data is the directory that was asked for, or empty.
func findGatekeeperSlot(getenv func(string) string, data string) (*GatekeeperSlot, error) {
	root := getenv(rootPathVariable)
	if root == "" {
		return nil, nil
	}
	// A relative path is good for Gatekeeper, too.
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, Failed(fmt.Errorf("%s=%s: %w", rootPathVariable, root, err))
	}
	s := GatekeeperSlot{rootPath: root, data: data}
	switch text := getenv(deleteVariable); text {
	case "true":
		s.deleteAfterRead = true
	case "false", "":
	default:
		return nil, Misconfigured("environment variable %s is %q: must be true or false", deleteVariable, text)
	}
	if s.data == "" {
		// The same volume, so that a file can have a second name there, and not where
		// Gatekeeper removes files.
		s.data = filepath.Join(filepath.Dir(root), "docket-data")
	}
	return &s, nil
}

func (s *GatekeeperSlot) config(kinds exporter.Kinds) (*exporter.Config, error) {
	cfg, problems := exporter.GatekeeperConfig(s.rootPath, s.data, s.deleteAfterRead, kinds)
	if len(problems) > 0 {
		return nil, &ConfigError{File: "built-in configuration for " + rootPathVariable + "=" + s.rootPath, Problems: problems}
	}
	return cfg, nil
}

// Explain logs what docket does because of the environment, and why.
func (s *GatekeeperSlot) Explain(log *slog.Logger, cfg *exporter.Config) {
	log.Info("-f is missing and "+rootPathVariable+" is set: docket reads what Gatekeeper exports below "+rootPathVariable+
		" and writes the records to standard output; to send them elsewhere, name a configuration file with -f", "rootPath", s.rootPath)
	if s.deleteAfterRead {
		log.Info(deleteVariable+" is true: docket deletes a file when its records are in the queue, on disk", "rootPath", s.rootPath)
	} else {
		log.Info(deleteVariable+" is not true: docket leaves files for Gatekeeper to remove", "rootPath", s.rootPath)
	}
	log.Info("the queue is outside "+rootPathVariable+", because Gatekeeper removes files there, and small, because Gatekeeper stops exporting "+
		"when the volume is nearly full; to use another directory, set --data",
		"queue", cfg.Queue.Directory, "maxBytes", cfg.Queue.MaxBytes)
}
