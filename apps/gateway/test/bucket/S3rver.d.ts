declare module "s3rver" {
  /** A server that speaks S3, with its objects in a folder. It knows the access key `S3RVER`. */
  export default class S3rver {
    constructor(options: {
      readonly port: number
      readonly address: string
      readonly silent: boolean
      readonly directory: string
      readonly configureBuckets: ReadonlyArray<{ readonly name: string }>
    })
    run(): Promise<{ readonly port: number }>
    close(): Promise<void>
  }
}
