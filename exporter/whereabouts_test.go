package exporter

import "testing"

// A file with mistakes still says where docket is, and a token goes nowhere but to this machine.
func TestWhereabouts(t *testing.T) {
	for name, test := range map[string]struct {
		text, directory, address string
		ok                       bool
	}{
		"good":           {"queue: {directory: q}\nadmin: {address: 127.0.0.1:1}\n", "q", "127.0.0.1:1", true},
		"default":        {"queue: {directory: q}\n", "q", "127.0.0.1:9464", true},
		"mistakes":       {"sinks: [{name: 7, nosuch: {}}]\nqueue: {directory: q, maxBytes: many}\nadmin: {address: 127.0.0.1:1, nosuch: 1}\n", "q", "127.0.0.1:1", true},
		"elsewhere":      {"queue: {directory: q}\nadmin: {address: 'example.com:1'}\n", "q", "", true},
		"no queue":       {"admin: {address: 127.0.0.1:1}\n", "", "127.0.0.1:1", false},
		"cannot be read": {"queue: {directory: q\n", "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			directory, admin, ok := Whereabouts([]byte(test.text))
			if directory != test.directory || admin.Address != test.address || ok != test.ok {
				t.Errorf("got %q, %q, %t, want %q, %q, %t", directory, admin.Address, ok, test.directory, test.address, test.ok)
			}
		})
	}
}
