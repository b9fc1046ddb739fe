package main

import (
	"bytes"
	"embed"
	"fmt"
	"slices"
	"strings"
	"text/template"
)

// peers are all that are measured, docket first. To add one, add it here: see
// docs/peers.md.
func peers() []peer { return []peer{docket, rsyslog, syslogNG} }

// peer is a program that takes lines on a unix stream socket, keeps them, and sends
// them to an HTTP server or writes them to a file.
//
// It needs no code to tell that it is ready, or what it has taken: it is ready when
// its socket takes connections, and has taken a load when it has acknowledged it or,
// where there are no acks, has read the end of each stream and closed the connection.
type peer struct {
	name string // as the tables show it; for the name of its directory too
	// packages of Debian that have the program, itself first. Those they depend on
	// are found by apt-get. None: the program is docket, built from this tree.
	packages []string
	template string // of its configuration, below templates
	settings []setting
	// command starts the program in the foreground, as one process. The
	// configuration is already in file.
	command func(in installation, file string, at place) command
}

// setting is one way to run a peer.
type setting struct {
	name         string // unique for the peer
	about        string // what it promises, for the page
	acknowledged bool   // producers speak docket's protocol and hear what is durable
}

// place is where a peer runs, and what its template can use.
type place struct {
	Setting   string // the name of the setting
	Directory string // on the disk, for all it keeps
	Socket    string // where it has to listen
	Export    string // directory for the files it writes, *.ndjson; "": it sends to Host and Port
	Host      string // of the HTTP server that takes the records
	Port      string
	Admin     string // address that nobody listens on, for what it may serve itself
	// MemoryRecords is how many records a queue in memory has to hold; 0: it is
	// left at its default.
	MemoryRecords int
}

// command is how to start a program.
type command struct {
	name string
	args []string
	env  []string // what is added to the environment
}

//go:embed templates
var templates embed.FS

// config returns the configuration of p at a place.
func (p peer) config(at place) ([]byte, error) {
	t, err := template.New(p.template).Option("missingkey=error").ParseFS(templates, "templates/"+p.template)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, at)
	return b.Bytes(), err
}

// contender is a peer in one of its settings.
type contender struct {
	peer
	setting
}

// key names a contender on the command line and in the results.
func (c contender) key() string { return c.peer.name + "/" + c.setting.name }

// contenders are all settings of all peers that the list names, of every peer for an
// empty list. docket is always among them: the others are measured beside it.
func contenders(all []peer, list string) ([]contender, error) {
	wanted := strings.Split(list, ",")
	for _, name := range wanted {
		if list != "" && !slices.ContainsFunc(all, func(p peer) bool { return p.name == name }) {
			return nil, fmt.Errorf("-only: there is no %q, only %s", name, strings.Join(peerNames(all), ", "))
		}
	}
	var chosen []contender
	for _, p := range all {
		if list != "" && p.name != docket.name && !slices.Contains(wanted, p.name) {
			continue
		}
		for _, s := range p.settings {
			chosen = append(chosen, contender{p, s})
		}
	}
	return chosen, nil
}

func peerNames(all []peer) []string {
	var names []string
	for _, p := range all {
		names = append(names, p.name)
	}
	return names
}
