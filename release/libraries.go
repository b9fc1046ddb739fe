package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// library is a module that the program is linked with, or Go's standard library.
type library struct {
	path, version string
	licence       string            // SPDX expression
	texts         map[string]string // of the files that a copy must come with, by name
}

// linked lists what program is linked with, by what it says itself.
func linked(ctx context.Context, root, program string) ([]library, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	goroot, err := output(ctx, root, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	libraries := []library{{path: "std", version: strings.TrimPrefix(info.GoVersion, "go")}}
	dirs := []string{strings.TrimSpace(goroot)}
	for _, dep := range info.Deps {
		if own(dep.Path) {
			continue
		}
		dir, err := output(ctx, root, "go", "list", "-m", "-f", "{{.Dir}}", dep.Path)
		if err != nil {
			return nil, err
		}
		libraries, dirs = append(libraries, library{path: dep.Path, version: dep.Version}), append(dirs, strings.TrimSpace(dir))
	}
	for i := range libraries {
		if err := libraries[i].read(dirs[i]); err != nil {
			return nil, err
		}
	}
	return libraries, nil
}

// read takes the licence from dir.
func (l *library) read(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", l.path, err)
	}
	l.texts = make(map[string]string)
	var all strings.Builder
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		if e.IsDir() || !strings.HasPrefix(name, "LICEN") && !strings.HasPrefix(name, "NOTICE") && !strings.HasPrefix(name, "COPYING") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		l.texts[e.Name()] = string(text)
		all.Write(text)
	}
	l.licence = spdx(all.String())
	if l.licence == "" {
		return fmt.Errorf("%s %s: no licence that is known here in %s: read it, and name it in release/libraries.go", l.path, l.version, dir)
	}
	return nil
}

// spdx names the licences of a text, all of them permissive; "" is a text of another.
func spdx(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	var found []string
	for _, l := range []struct{ id, says, without string }{
		{"Apache-2.0", "Apache License, Version 2.0", ""},
		{"Apache-2.0", "Apache License Version 2.0", ""},
		{"BSD-2-Clause", "Redistribution and use in source and binary forms", "to endorse or promote products"},
		{"BSD-3-Clause", "to endorse or promote products", ""},
		{"MIT", "Permission is hereby granted, free of charge", ""},
	} {
		if strings.Contains(text, l.says) && (l.without == "" || !strings.Contains(text, l.without)) && !slices.Contains(found, l.id) {
			found = append(found, l.id)
		}
	}
	for _, other := range []string{"GNU GENERAL PUBLIC", "GNU LESSER", "GNU AFFERO", "Mozilla Public License", "Business Source"} {
		if strings.Contains(text, other) {
			return ""
		}
	}
	return strings.Join(found, " AND ")
}

// noticeOf is the text that the licences want a copy to come with.
func noticeOf(libraries []library) []byte {
	var b bytes.Buffer
	b.WriteString("docket is linked with the libraries below. Each is under the licence that follows its name.\n")
	for _, l := range libraries {
		fmt.Fprintf(&b, "\n%s\n%s %s (%s)\n", strings.Repeat("=", 80), l.path, l.version, l.licence)
		names := make([]string, 0, len(l.texts))
		for name := range l.texts {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(l.texts[name]))
		}
	}
	return b.Bytes()
}
