# The server, its migrations and the command line in one image. Not run by a container engine where the
# project is tested; see docs/operations.md for what was checked instead.

FROM python:3.13.9-slim-bookworm AS build
WORKDIR /src
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/ledger
# The dependencies change less often than the code: they get a layer of their own.
COPY pyproject.toml README.md LICENSE ./
RUN mkdir -p ledger projections && touch ledger/__init__.py projections/__init__.py server.py \
    && /opt/ledger/bin/pip install '.[server,postgres]' \
    && /opt/ledger/bin/pip uninstall --yes agent-effects-ledger
COPY ledger ledger
COPY projections projections
COPY server.py ./
RUN /opt/ledger/bin/pip install --no-deps .

FROM python:3.13.9-slim-bookworm
# A fixed uid, so that the volume's owner is the same in every version of the image.
RUN groupadd --gid 10001 ledger \
    && useradd --uid 10001 --gid ledger --no-create-home --shell /usr/sbin/nologin ledger \
    && install -d -o ledger -g ledger -m 0700 /var/lib/ledger
COPY --from=build /opt/ledger /opt/ledger
ENV PATH=/opt/ledger/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    LEDGER_DATA=/var/lib/ledger
USER ledger:ledger
WORKDIR /var/lib/ledger
VOLUME ["/var/lib/ledger"]
EXPOSE 7420
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 CMD ["ledger", "health"]
ENTRYPOINT ["ledger"]
CMD ["serve"]
