package config

import (
	"slices"
	"testing"
)

type partWithFiles struct {
	Token SecretFile `yaml:"tokenFile"`
	TLS   *TLS       `yaml:"tls"`
}

// Every file that a configuration names is listed once, with the place that names it and
// whether it is secret.
func TestFiles(t *testing.T) {
	got := Files(struct {
		Name    string                   `yaml:"name"`
		Sink    any                      `yaml:"sink"`
		Headers map[string]SecretFile    `yaml:"headerFiles"`
		Rules   []partWithFiles          `yaml:"rules"`
		Server  ServerTLS                `yaml:"server"`
		Other   map[string]partWithFiles `yaml:",rest"`
	}{
		Name:    "none",
		Sink:    &partWithFiles{TLS: &TLS{CAFile: "ca", CertFile: "cert", KeyFile: "key", ServerName: "none"}},
		Headers: map[string]SecretFile{"b": "header b", "a": "header a"},
		Rules:   []partWithFiles{{}, {Token: "token"}},
		Server:  ServerTLS{CertFile: "server cert", KeyFile: "server key", ClientCAFile: "client ca"},
		Other:   map[string]partWithFiles{"kafka": {Token: "rest"}},
	})
	want := []FileUse{
		{"sink.tls.caFile", "ca", false},
		{"sink.tls.certFile", "cert", false},
		{"sink.tls.keyFile", "key", true},
		{"headerFiles.a", "header a", true},
		{"headerFiles.b", "header b", true},
		{"rules[1].tokenFile", "token", true},
		{"server.certFile", "server cert", false},
		{"server.keyFile", "server key", true},
		{"server.clientCAFile", "client ca", false},
		{"kafka.tokenFile", "rest", true},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
}
