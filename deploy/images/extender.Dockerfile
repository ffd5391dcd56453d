# The image of `make images`, for those who build with a daemon:
# docker build -f deploy/images/extender.Dockerfile target/x86_64-unknown-linux-musl/dist
FROM scratch
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title=extender \
      org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.revision=$REVISION \
      org.opencontainers.image.licenses=Apache-2.0
COPY extender /extender
USER 65532:65532
ENTRYPOINT ["/extender"]
