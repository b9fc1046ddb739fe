package configcmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/sources/kubeauditsource"
	"github.com/docket-export/docket/sources/kubeauditsource/kubeconfig"
)

// NewKubeconfig returns docket kubernetes-audit-kubeconfig.
func NewKubeconfig(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kubernetes-audit-kubeconfig -f FILE",
		Short: "Write the kubeconfig for a kube-apiserver's audit webhook",
		Long: `kubernetes-audit-kubeconfig writes the kubeconfig for the flag
--audit-webhook-config-file of kube-apiserver. It describes the source of kind
kubernetesAudit in FILE: its address, its certificate and the credentials that
it requires. A comment at the top lists the other flags that you need, and an
audit policy to start with.

The certificate comes from tls.certFile of the source and is written into the
file. The token is not: the file only names the token's file. kube-apiserver
reads the files that the kubeconfig names in its own container, so give the
paths there.`,
		Example: `  docket kubernetes-audit-kubeconfig -f docket.yaml
  docket kubernetes-audit-kubeconfig -f docket.yaml --source apiserver -o audit-webhook.yaml
  docket kubernetes-audit-kubeconfig -f docket.yaml --server https://10.0.0.7:8443 \
    --certificate-authority /etc/kubernetes/docket/ca.crt --token-file /etc/kubernetes/docket/token`,
		Args: command.NoArgs,
	}
	var file, source, output string
	var k kubeconfig.Options
	flags := cmd.Flags()
	flags.StringVarP(&file, "file", "f", "", "configuration file; - reads the standard input")
	flags.StringVar(&source, "source", "", "name of the source, if FILE has several of kind kubernetesAudit")
	flags.StringVarP(&output, "output", "o", "", "new file to write, with mode 0600 (default the standard output)")
	flags.StringVar(&k.Server, "server", "", "URL of the source for kube-apiserver, such as https://10.0.0.7:8443 (default the address of the source)")
	flags.StringVar(&k.Authority, "certificate-authority", "", "CA of the source's certificate, a path in kube-apiserver's container (default the content of tls.certFile here)")
	flags.StringVar(&k.Certificate, "client-certificate", "", "client certificate of kube-apiserver, a path in its container")
	flags.StringVar(&k.Key, "client-key", "", "key of the client certificate, a path in its container")
	flags.StringVar(&k.TokenFile, "token-file", "", "file with the token, a path in its container (default bearerTokenFile of the source)")
	flags.BoolVar(&k.EmbedToken, "embed-token", false, "write the token itself into the file; never to a terminal")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		name, configuration, err := textToCheck(cmd.InOrStdin(), file)
		if err != nil {
			return err
		}
		cfg, err := command.ParseConfig(kinds, name, configuration)
		if err != nil {
			return err
		}
		chosen, err := auditSource(name, cfg, source)
		if err != nil {
			return err
		}
		if k.EmbedToken && output == "" && terminal.IsTerminal(os.Stdout) {
			return errors.New("--embed-token would show the token on this terminal: write it to a file with -o FILE")
		}
		text, err := k.Make(chosen.Name, chosen.Config.(*kubeauditsource.Config))
		if _, ok := errors.AsType[*kubeconfig.FileError](err); ok {
			return command.Failed(err)
		}
		if err != nil {
			return err
		}
		return command.Failed(writeKubeconfig(cmd.OutOrStdout(), output, text))
	}
	return cmd
}

// auditSource returns the source of kind kubernetesAudit that is called name, or the
// only one there is when name is empty. Messages call the configuration file.
func auditSource(file string, cfg *exporter.Config, name string) (exporter.SourceConfig, error) {
	var found []exporter.SourceConfig
	var names []string
	for _, s := range cfg.Sources {
		if _, ok := s.Config.(*kubeauditsource.Config); ok {
			found, names = append(found, s), append(names, s.Name)
		}
	}
	at := 0
	switch {
	case len(found) == 0:
		return exporter.SourceConfig{}, fmt.Errorf("%s has no source of kind kubernetesAudit: add one, such as\n"+
			"  - name: apiserver\n    kubernetesAudit: {address: 127.0.0.1:8283}", file)
	case name != "":
		if at = slices.Index(names, name); at < 0 {
			return exporter.SourceConfig{}, fmt.Errorf("%s has no source %q of kind kubernetesAudit: choose %s", file, name, strings.Join(names, " or "))
		}
	case len(found) > 1:
		return exporter.SourceConfig{}, fmt.Errorf("%s has %d sources of kind kubernetesAudit: choose one with --source %s",
			file, len(found), strings.Join(names, " or "))
	}
	return found[at], nil
}

// writeKubeconfig writes text to w, or to a file that nobody else can read. A file that
// is there already stays as it is.
func writeKubeconfig(w io.Writer, file string, text []byte) error {
	if file == "" {
		_, err := w.Write(text)
		return err
	}
	if _, err := os.Lstat(file); err == nil {
		return fmt.Errorf("%s already exists: remove it, or choose another name", file)
	}
	return command.WriteNew(file, text, 0o600)
}
