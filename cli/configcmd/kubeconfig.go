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
		Short: "Write the file that points a kube-apiserver's audit webhook at docket",
		Long: `kubernetes-audit-kubeconfig writes the kubeconfig for the flag
--audit-webhook-config-file of kube-apiserver: where the source of kind
kubernetesAudit in FILE listens, which certificate it shows and what it asks of its
clients. A comment on top has the other flags that fit, and an audit policy to start
with.

The certificate is read from tls.certFile of the source and written into the file; the
token is not, the file names the one it is in. Both are read by kube-apiserver, in its
own container: name them by the paths that they have there.`,
		Example: `  docket kubernetes-audit-kubeconfig -f docket.yaml
  docket kubernetes-audit-kubeconfig -f docket.yaml --source apiserver -o audit-webhook.yaml
  docket kubernetes-audit-kubeconfig -f docket.yaml --server https://10.0.0.7:8443 \
    --certificate-authority /etc/kubernetes/docket/ca.crt --token-file /etc/kubernetes/docket/token`,
		Args: command.NoArgs,
	}
	var file, source, output string
	var k kubeconfig.Options
	flags := cmd.Flags()
	flags.StringVarP(&file, "file", "f", "", "configuration file; - is the standard input")
	flags.StringVar(&source, "source", "", "name of the source, where FILE has several of kind kubernetesAudit")
	flags.StringVarP(&output, "output", "o", "", "file to write, with mode 0600; it must not be there yet (default the standard output)")
	flags.StringVar(&k.Server, "server", "", "how kube-apiserver reaches the source, such as https://10.0.0.7:8443 (default the address of the source)")
	flags.StringVar(&k.Authority, "certificate-authority", "", "CA of the source's certificate, a path there (default what is in tls.certFile here)")
	flags.StringVar(&k.Certificate, "client-certificate", "", "certificate that kube-apiserver shows, a path there")
	flags.StringVar(&k.Key, "client-key", "", "its key, a path there")
	flags.StringVar(&k.TokenFile, "token-file", "", "the token, a path there (default bearerTokenFile of the source)")
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
		return fmt.Errorf("%s is there already: remove it, or choose another name", file)
	}
	return command.WriteNew(file, text, 0o600)
}
