# The image of a docket that is built: make image puts it below bin/image, and a release below a directory of its own.
FROM --platform=$BUILDPLATFORM alpine:3 AS files
RUN mkdir /empty

FROM scratch
ARG TARGETPLATFORM
COPY --from=files /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=files /empty /etc/docket
COPY --from=files --chown=65532:65532 --chmod=0750 /empty /run/docket
COPY --from=files --chown=65532:65532 --chmod=0750 /empty /var/lib/docket
COPY $TARGETPLATFORM/docket /docket
ENV PATH=/
WORKDIR /
USER 65532:65532
ENTRYPOINT ["/docket"]
