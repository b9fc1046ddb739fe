package dockettest

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Config is a configuration with sources, their lines not indented, and a file sink named
// copy that writes to ExportDirectory. Sections that it lacks can be added behind it.
func (d *Docket) Config(sources string) string {
	return fmt.Sprintf(`apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
%s
queue: {directory: %q}
sinks:
- name: copy
  file: {directory: %q}
`, strings.TrimSpace(sources), filepath.Join(d.Dir, "queue"), d.ExportDirectory())
}

// ExportDirectory is where the sink of Config writes to.
func (d *Docket) ExportDirectory() string { return filepath.Join(d.Dir, "export") }

// UnixSource is a source for Config, which listens at socket.
func UnixSource(name, socket string) string {
	return fmt.Sprintf("- name: %s\n  unix: {path: %q}", name, socket)
}
