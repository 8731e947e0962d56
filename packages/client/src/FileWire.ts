// Made of the schemas of the API by `node packages/client/test/wire/makeWire.ts`. A test says when it has to be made again.

export interface StoredFile {
  readonly file_id: string
  readonly name: string
  readonly media_type: string
  readonly bytes: number
  readonly sha256: string
  readonly width: number | null
  readonly height: number | null
  readonly created_at: string
  readonly expires_at: string
}
